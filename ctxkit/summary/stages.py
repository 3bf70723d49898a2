"""A history that no single call can take, cut into parts that one can: exchanges whole, and nothing left out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from ctxkit.ledger import Count, clipped

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block, Piece

_LEAST_CHARS: Final = 200
"""A text is not cut into smaller pieces than this."""

_LEAST_MESSAGES: Final = 4
"""A chunk has so many messages where the window allows it, as in OpenClaw: fewer make no context for each other."""

_SAFETY: Final = 0.95
_URL_CHARS: Final = 300
"""A longer address is the data itself."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What must not be parted: one text, or a tool call with its result and whatever stands between."""

    text: str
    requests: tuple[str, ...] = ()
    """What of it a user said."""
    replies: tuple[str, ...] = ()
    """What of it the assistant said."""
    messages: int = 1
    """Messages in a provider's format: a text, a call and a result are one each."""
    name: str = ""
    """Who says it, or which call it is."""
    left_out: str = ""
    """What was left out of the text for its size, in words; empty where nothing was."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What one call summarises."""

    text: str
    requests: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()

    def halves(self) -> "tuple[Chunk, Chunk]":
        """Return the chunk in two parts, cut at a line end where there is one near the middle."""
        middle = len(self.text) // 2
        line = self.text.find("\n", middle, middle + middle // 2)
        cut = line + 1 if line >= 0 else middle
        return (
            Chunk(text=self.text[:cut], requests=self.requests, replies=()),
            Chunk(text=self.text[cut:], requests=(), replies=self.replies),
        )


def units_of(messages: "Sequence[Msg]", code: str = "") -> Iterator[Unit]:
    """Yield the messages as text, unit by unit, oldest first.

    Args:
        messages: What to summarise.
        code: Stands in the lines that say who speaks, so that a tool's result cannot imitate a user.
    """
    label = f"{code} " if code else ""
    answered = {b.id for m in messages for b in m.content if b.type == "tool_result"}
    open_calls: set[str] = set()
    texts: list[str] = []
    requests: list[str] = []
    replies: list[str] = []

    def unit() -> Unit:
        name = texts[0].partition("]")[0].removeprefix(f"[{label}")
        said = tuple(requests), tuple(replies)
        return Unit(
            text="\n".join(texts), requests=said[0], replies=said[1], messages=len(texts), name=clipped(name, 80)
        )

    for message in messages:
        for block in message.content:
            texts.append(f"[{label}{_block_text(message, block)}")
            if block.type == "text":
                (requests if message.role == "user" else replies).append(block.text)
            elif block.type == "tool_call" and block.id in answered:
                open_calls.add(block.id)
            elif block.type == "tool_result":
                open_calls.discard(block.id)
            if not open_calls:
                yield unit()
                texts, requests, replies = [], [], []
    if texts:
        yield unit()


async def chunks_of(units: "Sequence[Unit]", *, limit_tokens: int, count: Count) -> list[Chunk]:
    """Return the units gathered into as few chunks as fit, of about equal weight and at least four messages each.

    A chunk has at most `limit_tokens` tokens; fewer than four messages are in it only where more would be over that. A unit
    that is too large by itself goes on over several chunks; joined, the chunks have every character of the units.
    """
    sized = [(unit, await count(unit.text) + 1) for unit in units]
    chunks: list[Chunk] = []
    for group in _groups(sized, limit_tokens):
        unit, tokens = group[0]
        if tokens > limit_tokens:
            chunks.extend(await _split(unit, tokens, limit_tokens=limit_tokens, count=count))
        else:
            chunks.append(_chunk_of([each for each, _ in group]))
    return chunks


async def without_oversized(units: Sequence[Unit], most_tokens: float, count: Count) -> list[Unit]:
    """Return the units with a note in place of each larger one; nothing where none is larger, or all are.

    Args:
        units: What is summarised, oldest first.
        most_tokens: Tokens above which a unit is left out.
        count: Returns the tokens of a text.
    """
    small: list[Unit] = []
    for unit in units:
        tokens = await count(unit.text)
        if tokens > most_tokens:
            note = f"{unit.name}: about {tokens} tokens, left out for its size"
            small.append(Unit(text=f"[{note}]", requests=unit.requests, name=unit.name, left_out=note))
        else:
            small.append(unit)
    left_out = sum(bool(unit.left_out) for unit in small)
    return small if 0 < left_out < len(small) else []


def with_left_out(fields: Mapping[str, Any], units: Sequence[Unit]) -> dict[str, Any]:
    """Return fields that say what was left out of the summary, in the last text field."""
    notes = [unit.left_out for unit in units if unit.left_out]
    name = next((name for name in reversed(list(fields)) if isinstance(fields[name], str)), None)
    if name is None or not notes:
        return dict(fields)
    return {**fields, name: "\n".join([fields[name], "Not in this summary:", *(f"- {note}" for note in notes)])}


def _groups(sized: Sequence[tuple[Unit, int]], limit_tokens: int) -> list[list[tuple[Unit, int]]]:
    """Gather units into groups that fit, of even weight; what is too large by itself stands alone."""
    wanted = _parts_in(sum(tokens for _, tokens in sized), limit_tokens)
    groups = _gathered(sized, limit_tokens, wanted=wanted)
    made = sum(_parts_in(sum(tokens for _, tokens in group), limit_tokens) for group in groups)
    if made > wanted:
        # Whole units left room unused, and a small rest behind full groups: among so many the weight is shared anew.
        evener = _gathered(sized, limit_tokens, wanted=made)
        groups = evener if len(evener) <= len(groups) else groups
    return groups


def _gathered(sized: Sequence[tuple[Unit, int]], limit_tokens: int, *, wanted: int) -> list[list[tuple[Unit, int]]]:
    """Gather units into about so many groups of even weight, none over the limit but a unit that is so by itself."""
    left = sum(tokens for _, tokens in sized)
    target = left / wanted
    groups: list[list[tuple[Unit, int]]] = []
    taken = 0
    for unit, tokens in sized:
        group = groups[-1] if groups else []
        is_full = taken + tokens > limit_tokens
        is_heavy = taken + tokens / 2 > target and _messages_in(group) >= _LEAST_MESSAGES
        if not group or is_full or is_heavy:
            wanted -= _parts_in(taken, limit_tokens) if group else 0
            left -= taken
            target = left / max(1, wanted)
            groups.append([])
            taken = 0
        groups[-1].append((unit, tokens))
        taken += tokens
    _fill_last(groups, limit_tokens)
    return groups


def _parts_in(tokens: int, limit_tokens: int) -> int:
    """Return how many calls so many tokens take at least."""
    return max(1, ceil(tokens / limit_tokens))


def _fill_last(groups: list[list[tuple[Unit, int]]], limit_tokens: int) -> None:
    """Give the last group units of the one before until it has messages enough, as far as both allow it."""
    while len(groups) > 1 and _messages_in(groups[-1]) < _LEAST_MESSAGES:
        *before, moved = groups[-2]
        weight = moved[1] + sum(tokens for _, tokens in groups[-1])
        if weight > limit_tokens or (before and _messages_in(before) < _LEAST_MESSAGES):
            return
        groups[-1].insert(0, moved)
        if before:
            groups[-2] = before
        else:
            del groups[-2]


def _messages_in(group: Sequence[tuple[Unit, int]]) -> int:
    return sum(unit.messages for unit, _ in group)


def _chunk_of(units: Sequence[Unit]) -> Chunk:
    return Chunk(
        text="\n".join(unit.text for unit in units),
        requests=tuple(request for unit in units for request in unit.requests),
        replies=tuple(reply for unit in units for reply in unit.replies),
    )


async def _split(unit: Unit, tokens: int, *, limit_tokens: int, count: Count) -> list[Chunk]:
    """Cut a unit into pieces that fit, by the density of the text round each cut."""
    pieces: list[str] = []
    text, start = unit.text, 0
    guess = max(_LEAST_CHARS, int(len(text) * limit_tokens / tokens * _SAFETY))
    while start < len(text):
        size = guess
        while size > _LEAST_CHARS and await count(text[start : start + size]) > limit_tokens:
            size = max(_LEAST_CHARS, size * 3 // 4)
        line = text.rfind("\n", start + size // 2, start + size) + 1
        stop = line if line > start and start + size < len(text) else start + size
        pieces.append(text[start:stop])
        start = stop
    last = len(pieces) - 1
    return [
        Chunk(text=piece, requests=() if n else unit.requests, replies=unit.replies if n == last else ())
        for n, piece in enumerate(pieces)
    ]


def _block_text(message: "Msg", block: "Block") -> str:
    """Return a block as a person would write it into a transcript, from behind the opening bracket on."""
    who = message.role if message.name in {"", message.role} else f"{message.role} {message.name}"
    if block.type == "text":
        return f"{who}] {block.text}"
    if block.type == "thinking":
        return f"{who} thinks] {block.thinking}"
    if block.type == "hint":
        return f"hint] {_pieces_text(block.hint)}"
    if block.type == "tool_call":
        return f"{who} calls {block.name}, {block.id}] {block.input}"
    if block.type == "tool_result":
        state = getattr(block.state, "value", block.state)
        return f"tool {block.name} answers {block.id}, {state}] {_pieces_text(block.output)}"
    return f"{who}] {_pieces_text([block])}"


def _pieces_text(pieces: "str | Sequence[Piece]") -> str:
    if isinstance(pieces, str):
        return pieces
    return "\n".join(piece.text if piece.type == "text" else _media_text(piece) for piece in pieces)


def _media_text(piece: "Piece") -> str:
    source = getattr(piece, "source", None)
    kind = getattr(source, "media_type", None) or "media"
    name = getattr(piece, "name", None)
    where = str(getattr(source, "url", None) or "")[:_URL_CHARS]
    return "[" + ", ".join(str(part) for part in (kind, name, where) if part) + "]"
