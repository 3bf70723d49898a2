"""Tool exchanges that are over, and of which the model has seen the result: what a cheap rung may work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import ToolCallBlock, ToolResultBlock

    from ctxkit.strategies._base import Situation
    from ctxkit.view import View

_SPOKEN = frozenset({"text", "thinking", "tool_call"})


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A tool call and its result, both of which may be edited."""

    call: ToolCallBlock
    call_place: Place
    result: ToolResultBlock
    result_place: Place


def settled(
    situation: Situation, *, keep_newest: int = 0, unseen: bool = False, cleared: bool = False
) -> tuple[Settled, ...]:
    """Return the exchanges that are over, by the place of their results, oldest first.

    Left out are those of pinned messages, open errors, and those whose result still grows.

    Args:
        situation: The context.
        keep_newest: So many of the newest results are left out: the very newest whatever its size, the others as far as
            they have at most the reserve together, for what stays is read at each step.
        unseen: Take results as well that the model has not been shown yet.
        cleared: Take exchanges as well of whose result one line is left.
    """
    view = situation.view
    over = sorted((e.result, e) for e in view.exchanges if e.result is not None)
    shown = _last_words(view)
    kept = _kept([place for place, _ in over[-keep_newest:]], situation) if keep_newest else 0
    found = []
    for place, exchange in over[: len(over) - kept]:
        if exchange.call_id in situation.open_errors or (place >= shown and not unseen):
            continue
        if not situation.pinned.isdisjoint((exchange.call.message, place.message)):
            continue
        call = view.contents[exchange.call.message][exchange.call.block]
        result = view.contents[place.message][place.block]
        if call.type != "tool_call" or result.type != "tool_result":
            continue
        if result.state == "running" and place >= shown:
            continue  # of a result that the model was shown it says only that another program made it
        if cleared or not is_cleared(result):
            found.append(Settled(call=call, call_place=exchange.call, result=result, result_place=place))
    return tuple(found)


def _kept(newest: Sequence[Place], situation: Situation) -> int:
    """Return how many of the newest results stay."""
    room = situation.settings.reserve_ratio * situation.context_size
    for kept, place in enumerate(reversed(newest)):
        room -= situation.tokens[place.message][place.block]
        if room < 0 and kept:
            return kept
    return len(newest)


def text_of_result(result: ToolResultBlock) -> str | None:
    """Return the text of a tool result, `None` where it has images or files."""
    if isinstance(result.output, str):
        return result.output
    parts = [piece.text for piece in result.output if piece.type == "text"]
    return "\n".join(parts) if len(parts) == len(result.output) else None


def is_cleared(result: ToolResultBlock) -> bool:
    """Whether one line stands already where a tool result stood."""
    return _is_marked(result, "cleared")


def is_shortened(result: ToolResultBlock) -> bool:
    """Whether a part of a tool result is left out."""
    return _is_marked(result, "shortened")


def _is_marked(result: ToolResultBlock, word: str) -> bool:
    mark = result.metadata.get("ctxkit")
    return isinstance(mark, dict) and bool(mark.get(word))


def _last_words(view: View) -> Place:
    """Return the place of what the agent said last; what stands behind it the model has not been shown."""
    for index in range(len(view) - 1, -1, -1):
        message = view.messages[index]
        if message.role == "assistant" and message.name == view.agent_name:
            for number in range(len(view.contents[index]) - 1, -1, -1):
                if view.contents[index][number].type in _SPOKEN:
                    return Place(index, number)
    return Place(0, 0)
