"""The one line that stands where a tool result stood: what was called, how it went, and where the original is.

It depends on the call and its result alone, never on time, place or number, so that it has the same bytes whenever it is
made, and a prompt cache keeps it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ctxkit.ledger import clipped
from ctxkit.ledger.calls import call_of
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
_REFERENCE_TOKENS: Final = 24
"""About what a reference and the call that reads it take."""


def cleared_text(call: ToolCallBlock, result: ToolResultBlock) -> str:
    """Return the line for a result that is old, with `REFERENCE` where the original is to be named."""
    told = call_of(call.name, call.input)
    size, images = _size(result)
    held = f"{size:,} characters" + (f" and {images} images or files" if images else "")
    outcome = _outcome(result, is_command=told.command is not None)
    return f"[Cleared to save room: the result of {_called(call, told)} ({outcome}, {held}). {_ORIGINAL}]"


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
    if isinstance(result.output, str):
        return len(result.output), 0
    texts = [piece.text for piece in result.output if piece.type == "text"]
    return sum(map(len, texts)), len(result.output) - len(texts)


def _first_text(result: ToolResultBlock) -> str:
    return next((piece.text for piece in result.output if not isinstance(piece, str) and piece.type == "text"), "")


def _safe(text: str) -> str:
    """Return words of a tool or a model in a form in which they pass for no marker and no place of an original."""
    return defuse(text).replace(REFERENCE, "{...}")
