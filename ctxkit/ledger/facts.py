"""The facts of one block, found by code: no model is asked, the same block always has the same facts."""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from ctxkit.ledger.adapters import is_failed
from ctxkit.ledger.calls import Call, call_of, runs_commands
from ctxkit.ledger.identifiers import identifiers_of, is_opaque
from ctxkit.ledger.jobs import says_over, started_in
from ctxkit.ledger.lines import (
    clipped,
    constraints_in,
    errors_in,
    exit_code_in,
    last_words,
    line_at,
    promises_in,
    says_error,
    strictest,
)
from ctxkit.ledger.markers import without_escapes, without_markers
from ctxkit.ledger.suites import TestState, tests_in
from ctxkit.tokens import serve_loop

if TYPE_CHECKING:
    from ctxkit.port import Block

Role = Literal["user", "assistant", "system"]
Speaker = Literal["user", "assistant", "environment"]

PIECE_CHARS: Final = 32 * 1024
"""Characters that are scanned at one go, so that the event loop is held for a few milliseconds at most."""

_IDENTIFIERS_PER_PIECE: Final = 400
_LINES_PER_PIECE: Final = 48
_ERRORS_PER_BLOCK: Final = 3
_CONSTRAINTS_PER_BLOCK: Final = 60
"""More than users write, for all of them count; rules that were pasted by the hundred have no end."""
_PROMISES_PER_BLOCK: Final = 3
_TESTS_PER_BLOCK: Final = 60
_MEMO_BYTES: Final = 96 * 1024 * 1024
"""Bound of all facts that are remembered, by estimate: those of a context of some million tokens. A context that is larger
is scanned anew several times at each compression."""
_ENTRY_BYTES: Final = 1200
"""About what the facts of one block take without a name in them."""
_NAME_BYTES: Final = 48
"""About what a name takes: most of them stand in other blocks, too, and are the same object there."""
_TOOL_CHARS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one block says, as far as code can tell."""

    speaker: Speaker = "environment"
    """Whose words they are; what a tool or a hint says is the environment's and never becomes a wish of the user."""
    identifiers: tuple[str, ...] = ()
    """Distinct, in the order of their first mention."""
    lines: Mapping[str, str] = field(default_factory=dict)
    """The line in which an identifier stood that says nothing without it; of a tool's, behind the name of the tool."""
    call_id: str | None = None
    """Ties the facts of a call to those of its result."""
    call: Call | None = None
    """What a tool call set out to do."""
    is_result: bool = False
    problem: str | None = None
    """Of a result: why it failed, one line; `None` where it did not."""
    exit_code: int | None = None
    """Of a result: the exit code that it names; `None` where it names none."""
    errors: tuple[str, ...] = ()
    """Error lines of a result, in their order."""
    constraints: tuple[str, ...] = ()
    """Sentences of the user that demand or forbid, verbatim."""
    promises: tuple[str, ...] = ()
    """Sentences of the assistant that decide or promise something, verbatim."""
    tests: Mapping[str, TestState] = field(default_factory=dict)
    """Of a result: the tests that it names, and how they went."""
    started: tuple[str, ...] | None = None
    """Of a result: names of the job that it says goes on in the background; `None` where it says none."""
    over: str | None = None
    """Of a result or a hint: the word by which it says that something has ended."""


class _Memo:
    """Facts of blocks that were scanned before, oldest forgotten first."""

    def __init__(self, limit_bytes: int) -> None:
        self._room = limit_bytes
        self._facts: OrderedDict[object, Facts] = OrderedDict()

    def get(self, key: object) -> Facts | None:
        return self._facts.get(key)

    def put(self, key: object, facts: Facts) -> None:
        if key in self._facts:  # two scanned it at the same time
            return
        self._facts[key] = facts
        self._room -= _bytes_of(facts)
        while self._room < 0 and len(self._facts) > 1:
            self._room += _bytes_of(self._facts.popitem(last=False)[1])


def _bytes_of(facts: Facts) -> int:
    """Return about how much memory facts take."""
    texts = (*facts.lines.values(), *facts.errors, *facts.constraints, *facts.promises, *facts.tests)
    said = 0 if facts.call is None else sys.getsizeof(facts.call.text)
    return _ENTRY_BYTES + _NAME_BYTES * len(facts.identifiers) + said + sum(map(sys.getsizeof, texts))


_MEMO: Final = _Memo(_MEMO_BYTES)


def facts_of(block: "Block", *, role: Role = "assistant") -> Facts:
    """Return the facts of one block.

    It holds the event loop for about 0.1 ms a kilobyte; for blocks of any size there is `scan_block`.

    Args:
        block: A block of AgentScope's; one without text has no facts.
        role: The role of the message that the block stands in.
    """
    speaker, call = _speaker_of(block, role), _call_of(block)
    return _joined(block, speaker, call, [_facts_of_piece(piece, speaker) for piece in _pieces(_text_of(block, call))])


async def scan_block(block: "Block", *, role: Role = "assistant") -> Facts:
    """Return the facts of one block of any size, pausing between pieces, and among many blocks.

    A block whose text was scanned before costs a look-up, copies of it included.

    Args:
        block: A block of AgentScope's; one without text has no facts.
        role: The role of the message that the block stands in.
    """
    await serve_loop()
    key = _key_of(block, role)
    known = _MEMO.get(key)
    if known is not None:
        return known
    speaker, call = _speaker_of(block, role), _call_of(block)
    parts: list[Facts] = []
    for piece in _pieces(_text_of(block, call)):
        if parts:
            await asyncio.sleep(0)
        parts.append(_facts_of_piece(piece, speaker))
    facts = _joined(block, speaker, call, parts)
    _MEMO.put(key, facts)
    return facts


async def scan_text(text: str, speaker: Speaker) -> Facts:
    """Return identifiers, lines, errors and constraints of a bare text of any size, pausing between pieces."""
    parts: list[Facts] = []
    for piece in _pieces(without_markers(text)):
        if parts:
            await asyncio.sleep(0)
        parts.append(_facts_of_piece(piece, speaker))
    return _merged(speaker, parts)


def raw_texts(block: "Block") -> tuple[str, ...]:
    """Return the texts of a block as they stand in it: arguments of a call as JSON, outputs of a result one by one."""
    if block.type == "text":
        return (block.text,)
    if block.type == "thinking":
        return (block.thinking,)
    if block.type == "tool_call":
        return (block.input,)
    if block.type == "hint":
        return _texts_of(block.hint)
    if block.type == "tool_result":
        return _texts_of(block.output)
    return ()


def _texts_of(content: object) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    pieces = content if isinstance(content, list) else []
    return tuple(piece.text for piece in pieces if piece.type == "text")


def _key_of(block: "Block", role: Role) -> object:
    # A str keeps its own hash, so that a second look costs no pass over the text; the length makes a clash harmless
    # in practice (64 bits, keyed at random per process).
    said = tuple([(hash(text), len(text)) for text in raw_texts(block)])
    if block.type == "tool_call":
        return (role, said, block.id, block.name)  # hosts of local models number calls anew in each reply
    if block.type == "tool_result":
        return (role, said, block.id, block.name, str(getattr(block.state, "value", block.state)))
    return (role, said, block.type)


def _speaker_of(block: "Block", role: Role) -> Speaker:
    if block.type in {"tool_result", "hint", "data"}:
        return "environment"
    if block.type in {"tool_call", "thinking"}:
        return "assistant"
    return "environment" if role == "system" else role


def _call_of(block: "Block") -> Call | None:
    return call_of(block.name, block.input) if block.type == "tool_call" else None


def _text_of(block: "Block", call: Call | None) -> str:
    return without_markers("\n".join(raw_texts(block)) if call is None else call.text)


def _pieces(text: str) -> Iterator[str]:
    """Cut a text at line ends, else at blanks, else anywhere, into pieces that may be scanned at one go."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        stop = start + PIECE_CHARS
        half = start + PIECE_CHARS // 2
        cut = max(text.rfind("\n", half, stop), 0) or max(text.rfind(" ", half, stop), 0) or stop - 1
        yield text[start : cut + 1]
        start = cut + 1
    if start < len(text):
        yield text[start:]


def _facts_of_piece(text: str, speaker: Speaker) -> Facts:
    names = identifiers_of(text, _IDENTIFIERS_PER_PIECE)
    opaque = islice((name for name in names if is_opaque(name)), _LINES_PER_PIECE)
    return Facts(
        speaker=speaker,
        identifiers=tuple(names),
        lines={name: line_at(text, name) for name in opaque} if speaker != "assistant" else {},
        errors=errors_in(text, _ERRORS_PER_BLOCK) if speaker == "environment" else (),
        constraints=constraints_in(text) if speaker == "user" else (),
        tests=tests_in(text, _TESTS_PER_BLOCK) if speaker == "environment" else {},
    )


def _joined(block: "Block", speaker: Speaker, call: Call | None, parts: list[Facts]) -> Facts:
    """Add to the facts of a block's pieces what only the whole block knows."""
    facts = _merged(speaker, parts)
    if block.type == "tool_call":
        return replace(facts, call_id=block.id, call=call)
    if block.type == "tool_result":
        texts = raw_texts(block)
        code = exit_code_in(texts[-1]) if texts and runs_commands(block.name) else None
        problem = _problem_of(block, facts.errors, code)
        lines = {name: f"{clipped(block.name, _TOOL_CHARS)}: {line}" for name, line in facts.lines.items()}
        told = "\n".join(texts)
        return replace(
            facts,
            lines=lines,
            call_id=block.id,
            is_result=True,
            problem=problem,
            exit_code=code,
            started=started_in(told),
            over=says_over(told),
        )
    if block.type == "hint":
        return replace(facts, errors=(), tests={}, over=says_over("\n".join(raw_texts(block))))
    promises = promises_in(block.text, _PROMISES_PER_BLOCK) if block.type == "text" and speaker == "assistant" else ()
    return replace(facts, errors=(), tests={}, promises=promises)


def _merged(speaker: Speaker, parts: list[Facts]) -> Facts:
    lines: dict[str, str] = {}
    for part in reversed(parts):
        lines.update(part.lines)
    return Facts(
        speaker=speaker,
        identifiers=tuple(dict.fromkeys(name for part in parts for name in part.identifiers)),
        lines=lines,
        errors=tuple(dict.fromkeys(line for part in parts for line in part.errors))[-_ERRORS_PER_BLOCK:],
        constraints=strictest(
            tuple(dict.fromkeys(line for part in parts for line in part.constraints)), _CONSTRAINTS_PER_BLOCK
        ),
        tests={name: state for part in parts for name, state in part.tests.items()},
    )


def _problem_of(block: "Block", errors: tuple[str, ...], code: int | None) -> str | None:
    text = "\n".join(raw_texts(block))
    if not is_failed(block) and (code == 0 or (code is None and not says_error(text))):
        return None
    said = errors[-1] if errors else last_words(without_escapes(text))
    return ": ".join(part for part in (f"exit {code}" if code else "failed", said) if part)
