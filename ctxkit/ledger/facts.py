"""The facts of one block, found by code: no model is asked, the same block always has the same facts."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from ctxkit.ledger.calls import Call, call_of
from ctxkit.ledger.identifiers import identifiers_of, is_opaque
from ctxkit.ledger.lines import clipped, constraints_in, errors_in, exit_code_in, line_at
from ctxkit.ledger.markers import without_markers

if TYPE_CHECKING:
    from ctxkit.port import Block

Role = Literal["user", "assistant", "system"]
Speaker = Literal["user", "assistant", "environment"]

PIECE_CHARS: Final = 32 * 1024
"""Characters that are scanned at one go, so that the event loop is held for a few milliseconds at most."""

_IDENTIFIERS_PER_PIECE: Final = 400
_LINES_PER_PIECE: Final = 48
_ERRORS_PER_BLOCK: Final = 3
_CONSTRAINTS_PER_BLOCK: Final = 20
_MEMO_SIZE: Final = 16384
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


class _Memo:
    """Facts of blocks that were scanned before, oldest forgotten first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._facts: OrderedDict[object, Facts] = OrderedDict()

    def get(self, key: object) -> Facts | None:
        return self._facts.get(key)

    def put(self, key: object, facts: Facts) -> None:
        self._facts[key] = facts
        if len(self._facts) > self._size:
            self._facts.popitem(last=False)


_MEMO: Final = _Memo(_MEMO_SIZE)


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
    """Return the facts of one block of any size, pausing between pieces.

    A block whose text was scanned before costs a look-up, copies of it included.

    Args:
        block: A block of AgentScope's; one without text has no facts.
        role: The role of the message that the block stands in.
    """
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
    texts = raw_texts(block)
    state = block.state if block.type == "tool_result" else None
    return (
        block.type,
        role,
        getattr(block, "id", None),
        getattr(block, "name", None),  # hosts of local models number calls anew in each reply
        str(getattr(state, "value", state)),
        tuple((hash(t), len(t)) for t in texts),
    )


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
        constraints=constraints_in(text, _CONSTRAINTS_PER_BLOCK) if speaker == "user" else (),
    )


def _joined(block: "Block", speaker: Speaker, call: Call | None, parts: list[Facts]) -> Facts:
    """Add to the facts of a block's pieces what only the whole block knows."""
    facts = _merged(speaker, parts)
    if block.type == "tool_call":
        return replace(facts, call_id=block.id, call=call)
    if block.type == "tool_result":
        texts = raw_texts(block)
        code = exit_code_in(texts[-1]) if texts else None
        problem = _problem_of(block, facts.errors, code)
        lines = {name: f"{clipped(block.name, _TOOL_CHARS)}: {line}" for name, line in facts.lines.items()}
        return replace(facts, lines=lines, call_id=block.id, is_result=True, problem=problem, exit_code=code)
    return replace(facts, errors=())


def _merged(speaker: Speaker, parts: list[Facts]) -> Facts:
    lines: dict[str, str] = {}
    for part in reversed(parts):
        lines.update(part.lines)
    return Facts(
        speaker=speaker,
        identifiers=tuple(dict.fromkeys(name for part in parts for name in part.identifiers)),
        lines=lines,
        errors=tuple(dict.fromkeys(line for part in parts for line in part.errors))[-_ERRORS_PER_BLOCK:],
        constraints=tuple(dict.fromkeys(line for part in parts for line in part.constraints))[:_CONSTRAINTS_PER_BLOCK],
    )


def _problem_of(block: "Block", errors: tuple[str, ...], code: int | None) -> str | None:
    texts = raw_texts(block)
    state = getattr(block, "state", None)
    if str(getattr(state, "value", state)) not in {"error", "denied", "interrupted"} and code in {None, 0}:
        return None
    first = errors[-1] if errors else line_at(texts[0], texts[0].strip()[:40]) if texts else ""
    return ": ".join(part for part in (f"exit {code}" if code else "failed", first) if part)
