"""The one line that stands where a tool result stood: what was called, how it went, and where the original is.

It depends on the call and its result alone, never on time, place or number, so that it has the same bytes whenever it is
made, and a prompt cache keeps it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ctxkit.ledger import clipped
from ctxkit.ledger.calls import call_of
from ctxkit.ledger.identifiers import identifiers_of, is_opaque
from ctxkit.ledger.lines import exit_code_in
from ctxkit.plan import REFERENCE, Edit, EditKind
from ctxkit.results import defuse

if TYPE_CHECKING:
    from agentscope.message import ToolCallBlock, ToolResultBlock

    from ctxkit.ledger.calls import Call
    from ctxkit.strategies._base import Situation
    from ctxkit.strategies.settled import Settled

NOT_STORED: Final = "not stored"
"""What the line says in place of a reference where there is none."""
_ORIGINAL: Final = f"Original: {REFERENCE}"
_ENDED_OTHERWISE: Final = {"interrupted": "interrupted", "denied": "denied"}
"""The host's states in plain words; its own are members of an enumeration."""
_TOOL_CHARS: Final = 64
_ARGUMENT_CHARS: Final = 60
_PATH_CHARS: Final = 48
_LINE_CHARS: Final = 80
LEAST_TOKENS: Final = 48
"""A smaller result is never cleared: the line in its place takes about as much."""
_CHARS_PER_TOKEN: Final = 3
"""Fewer than prose has: the line is full of names and signs, and no rung may count on more than it frees."""
_ANCHORS: Final = 60
"""So many identifiers of a cleared result stay in its line."""
_ANCHOR_CHARS: Final = 1200
"""They have so many characters at most together. On two recorded runs (131 later uses, trigger at 80%) 300 characters kept
71% live, 600 78%, 1,200 89% and 3,000 no more; the summary rung alone kept 91% (benchmarks/recall.py)."""
_ANCHOR_SHARE: Final = 0.12
"""And no more than this share of the result, so that short ones are worth clearing."""
_LOOKED_AT: Final = 400
"""So many of a result's identifiers are looked at, the first and the last."""
_REFERENCE_TOKENS: Final = 24
"""About what a reference and the call that reads it take."""


def cleared_text(call: ToolCallBlock, result: ToolResultBlock) -> str:
    """Return the line for a result that is old, with `REFERENCE` where the original is to be named."""
    told = call_of(call.name, call.input)
    size, images = _size(result)
    held = f"{size:,} characters" + (f" and {images} images or files" if images else "")
    outcome = _outcome(result, is_command=told.command is not None)
    names = _anchors(result, size, known=f"{call.name} {call.input}")
    named = f" Named in it: {names}." if names else ""
    return f"[Cleared to save room: the result of {_called(call, told)} ({outcome}, {held}).{named} {_ORIGINAL}]"


def superseded_text(call: ToolCallBlock, why: str) -> str:
    """Return the line for a result that a later call has made needless.

    Args:
        call: The call whose result it was.
        why: In words what makes it so; it names the later call.
    """
    return f"[Cleared to save room: the result of {called(call)}, {why}. {_ORIGINAL}]"


def called(call: ToolCallBlock) -> str:
    """Return a short form of a call: the tool, and the beginning of its command, path or arguments."""
    return _called(call, call_of(call.name, call.input))


def _called(call: ToolCallBlock, told: Call) -> str:
    shown = told.command or told.text
    if told.files and told.command is None:
        path = told.files[0][0]
        short = path if len(path) <= _PATH_CHARS else f"…{path[1 - _PATH_CHARS :]}"  # its end tells most
        # A path that stands behind the content that is to be written would be cut off.
        shown = shown.replace(path, short, 1) if path in shown[: 2 * _ARGUMENT_CHARS] else short
    return f"{_safe(clipped(call.name, _TOOL_CHARS))}({_safe(clipped(shown, _ARGUMENT_CHARS))})"


def with_reference(text: str, reference: str | None, *, recall: bool) -> str:
    """Return the text of an edit with the place of the original filled in.

    Args:
        text: As a strategy made it, with `REFERENCE` in it or without.
        reference: Where the original is stored; `None` where it is not.
        recall: The agent has `read_context`.
    """
    if reference is None:
        return text.replace(REFERENCE, NOT_STORED)
    place = defuse(reference)
    return text.replace(REFERENCE, f'read_context(reference="{place}")' if recall else f"'{place}'")


def clear_edit(situation: Situation, one: Settled, text: str, *, rule: str) -> Edit | None:
    """Return the edit that puts a line in the place of a result, or `None` where that would free nothing."""
    place = one.result_place
    stood = situation.tokens[place.message][place.block]
    keep = math.ceil(len(text) / _CHARS_PER_TOKEN) + _REFERENCE_TOKENS
    if stood <= keep:
        return None
    return Edit(
        kind=EditKind.CLEAR,
        message=place.message,
        message_id=situation.view.messages[place.message].id,
        start=place.block,
        stop=place.block + 1,
        tokens=round(stood),
        keep_tokens=keep,
        rule=rule,
        text=text,
    )


def _anchors(result: ToolResultBlock, size: int, *, known: str) -> str:
    """Return the identifiers of a result that somebody is likeliest to need again letter by letter.

    What says nothing by itself, ids and numbers, goes before paths and addresses, and these before other names; of each
    kind the first and the last, which is where listings and logs have what matters.
    """
    text = "\n".join(_texts(result))
    found = [name for name in identifiers_of(text, _LOOKED_AT) if name not in known]
    room, chosen = min(_ANCHOR_CHARS, int(_ANCHOR_SHARE * size)), set[str]()
    for name in sorted(_ends_first(found), key=_rank):
        if len(name) + 2 <= room and len(chosen) < _ANCHORS:
            chosen.add(name)
            room -= len(name) + 2
    return _safe(", ".join(name for name in found if name in chosen))


def _rank(name: str) -> int:
    return 0 if is_opaque(name) else 1 if "/" in name or any(map(str.isdigit, name)) else 2


def _ends_first(names: list[str]) -> list[str]:
    """Return names so that the first and the last come before those between them."""
    return [name for pair in zip(names, reversed(names), strict=True) for name in pair][: len(names)]


def _outcome(result: ToolResultBlock, *, is_command: bool) -> str:
    """Return in a few words how a call went."""
    text = result.output if isinstance(result.output, str) else _first_text(result)
    if result.state == "error":
        line = next((line for line in text[: 8 * _LINE_CHARS].splitlines() if line.strip()), "")
        return f"error: {_safe(clipped(line, _LINE_CHARS))}" if line else "error"
    if result.state in _ENDED_OTHERWISE:
        return _ENDED_OTHERWISE[result.state]
    code = exit_code_in(text) if is_command else None
    return f"exit code {code}" if code else "ok"


def _size(result: ToolResultBlock) -> tuple[int, int]:
    """Return the characters of a result, and the number of its images and files."""
    texts = _texts(result)
    return sum(map(len, texts)), 0 if isinstance(result.output, str) else len(result.output) - len(texts)


def _texts(result: ToolResultBlock) -> list[str]:
    """Return the texts of a result."""
    if isinstance(result.output, str):
        return [result.output]
    return [piece.text for piece in result.output if not isinstance(piece, str) and piece.type == "text"]


def _first_text(result: ToolResultBlock) -> str:
    return next((piece.text for piece in result.output if not isinstance(piece, str) and piece.type == "text"), "")


def _safe(text: str) -> str:
    """Return words of a tool or a model in a form in which they pass for no marker and no place of an original."""
    return defuse(text).replace(REFERENCE, "{...}")
