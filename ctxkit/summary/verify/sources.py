"""Sources: everything that a summary may have its facts from, and whether a claim stands in it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxkit.ledger import Ledger, Reader, raw_texts
from ctxkit.ledger.facts import PIECE_CHARS
from ctxkit.ledger.markers import without_escapes
from ctxkit.summary.verify.claims import MARK, Claim

if TYPE_CHECKING:
    from agentscope.message import Msg

OVERLAP_CHARS: Final = 300
"""Longer than any claim, so that none is cut in two between pieces."""

_NEAR_CHARS: Final = 24
"""A unit stands so near to its number at most."""

_UNVERIFIED_BEFORE: Final = re.compile(rf"(?<!\S)\S+ {re.escape(MARK)}")


_MOST_LINES: Final = 4000
"""Newest identifiers whose lines are looked at for what the record says of a key."""


class Passage(NamedTuple):
    """One text of a source."""

    text: str
    tool: str = ""
    """Name of the tool that said it; empty for what users, assistants and the system said."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Everything that a summary may have its facts from."""

    passages: Sequence[Passage] = ()
    ledger: Ledger = field(default_factory=Ledger)
    """Facts of all passages and of what was compressed before them; but of identifiers those before alone."""
    names: frozenset[str] = frozenset()
    """Identifiers in lower case that are known without a search."""
    lines: Sequence[str] = ()
    """The lines in which the newest identifiers stood that say nothing without one, each once."""

    @classmethod
    async def of(cls, messages: "Iterable[Msg]", *, ledger: Ledger, previous: str = "") -> "Sources":
        """Return the sources of a summary; what was scanned before costs a look-up.

        Args:
            messages: What the model saw, each message once: system prompt, what leaves, what stays.
            ledger: Facts of what was compressed before.
            previous: The summary before this one; what it marks as unverified is no source.
        """
        passages: list[Passage] = []
        names: set[str] = set(ledger.identifiers)
        lines = {name: mention.line for name, mention in ledger.identifiers.items() if mention.line}
        commands = (f"{command.text} {command.outcome}" for command in ledger.commands)
        known = "\n".join(
            [*ledger.files, *commands, *ledger.errors, *ledger.constraints, *dict.fromkeys(lines.values())]
        )
        reader = Reader(ledger, names=False)
        for message in messages:
            for block in message.content:
                facts = await reader.take(block, role=message.role)
                names.update(facts.identifiers)
                for name in facts.lines:
                    lines.pop(name, None)
                lines.update(facts.lines)
                texts = raw_texts(block) if facts.call is None else (*raw_texts(block), facts.call.text)
                tool = block.name if block.type == "tool_result" else ""
                passages.extend(
                    [Passage(text=_without_unverified(without_escapes(text)), tool=tool) for text in texts if text]
                )
        passages += [Passage(text=known), Passage(text=_without_unverified(previous))]
        newest = list(lines.values())[-_MOST_LINES:]
        return cls(
            passages=passages,
            ledger=await reader.ledger(),
            names=frozenset(map(str.lower, names)),
            lines=tuple(dict.fromkeys(newest)),
        )

    async def unknown(self, claims: Sequence[Claim]) -> list[Claim]:
        """Return the claims that stand in none of the sources, in their order."""
        left = {claim.text: claim for claim in claims if claim.near or self.names.isdisjoint(claim.keys)}
        composed = {name: _Composed(claim.keys[0]) for name, claim in left.items() if claim.kind == "path"}
        async with aclosing(self.pieces()) as pieces:
            async for text, _ in pieces:
                for name, claim in list(left.items()):
                    is_here = any(_stands(key, text, claim.near) for key in claim.keys)
                    if is_here or (name in composed and composed[name].is_known_with(text)):
                        del left[name]
                if not left:
                    break
        return list(left.values())

    async def pieces(self) -> AsyncGenerator[tuple[str, str], None]:
        """Yield all text in lower case, oldest first, piece by piece with pauses, each with the tool that said it."""
        since = 0
        for passage in self.passages:
            for start in range(0, len(passage.text), PIECE_CHARS):
                piece = passage.text[start : start + PIECE_CHARS + OVERLAP_CHARS]
                yield piece.lower(), passage.tool
                since += len(piece)
                if since >= PIECE_CHARS:
                    since = 0
                    await asyncio.sleep(0)


class _Composed:
    """A path that may have been put together from a directory and a path below it, each named alone.

    Args:
        path: The path, in lower case.
    """

    def __init__(self, path: str) -> None:
        cuts = [at for at, character in enumerate(path) if character == "/" and 0 < at < len(path) - 1]
        self._parts = [(path[:at], path[at + 1 :]) for at in cuts]
        self._seen: set[str] = set()

    def is_known_with(self, text: str) -> bool:
        """Look for the parts in one more text; return whether both parts of some cut have been seen by now."""
        for head, tail in self._parts:
            if head not in self._seen and _stands(head, text):
                self._seen.add(head)
            if tail not in self._seen and _stands(tail, text, begins_path=True):
                self._seen.add(tail)
        return any(head in self._seen and tail in self._seen for head, tail in self._parts)


def _without_unverified(text: str) -> str:
    return _UNVERIFIED_BEFORE.sub(" ", text) if MARK in text else text


def _stands(key: str, text: str, near: Sequence[str] = (), *, begins_path: bool = False) -> bool:
    """Return whether a key stands in a text as a word of its own, among the words that are asked for.

    Args:
        key: What is looked for, in lower case.
        text: A text in lower case.
        near: Units, one of which must stand beside it.
        begins_path: Whether it must be no end of a longer path.
    """
    at = text.find(key)
    while at >= 0:
        stop = at + len(key)
        goes_on = _goes_on(text, at - 1, -1, key[0]) or _goes_on(text, stop, 1, key[-1])
        if near and goes_on:  # `32GB`, `t=32ms`
            goes_on = text[stop : stop + 1].isdigit() or text[at - 1 : at].isalnum()
        below = begins_path and text[at - 1 : at] in {"/", "\\"}
        if not goes_on and not below and (not near or is_near(text, at, stop, near)):
            return True
        at = text.find(key, at + 1)
    return False


def _goes_on(text: str, at: int, step: int, beside: str) -> bool:
    """Return whether a word goes on at a place beside its end; ASCII only, for Chinese has no blanks between words."""
    if not 0 <= at < len(text):
        return False
    character = text[at]
    if beside.isdigit() and character in ".,":
        return text[at + step : at + step + 1].isdigit() and at + step >= 0
    if step < 0 and character in "nrt" and text[at - 1 : at] == "\\":  # a line end in JSON text
        return False
    return character.isascii() and character.isalnum() and beside.isalnum()


def is_near(text: str, start: int, stop: int, words: Sequence[str]) -> bool:
    """Return whether a unit stands beside a number; units of one letter must follow it at once."""
    behind = text[stop : stop + 3].lstrip(" -")
    around = text[max(0, start - _NEAR_CHARS) : stop + _NEAR_CHARS]
    return any(
        word in around if len(word) > 1 or not word.isalpha() else behind[:1] == word and not behind[1:2].isalpha()
        for word in words
    )
