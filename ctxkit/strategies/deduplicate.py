"""Clear a tool result that came again later: the same text, a newer read of the same file, or what was written over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ctxkit.ledger.calls import call_of
from ctxkit.strategies.settled import settled, text_of_result
from ctxkit.strategies.stub import called, clear_edit, superseded_text

if TYPE_CHECKING:
    from agentscope.message import ToolCallBlock

    from ctxkit.ledger.calls import Call
    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation
    from ctxkit.strategies.settled import Settled

_LEAST_CHARS: Final = 200
"""Shorter results are about as long as the line that would stand in their place."""


@dataclass(frozen=True, kw_only=True)
class DeduplicateStrategy:
    """Clears what the context holds twice, and reads of a file that are out of date.

    The newest of equals stays. A file that was edited is not one that was written anew: the read before the edit is the
    only copy of the rest of it, and stays.
    """

    name: str = field(default="deduplicate", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each result that a later one makes needless."""
        edits = []
        texts: dict[tuple[str, str], ToolCallBlock] = {}
        reads: dict[tuple[str, str], ToolCallBlock] = {}
        written: dict[str, ToolCallBlock] = {}
        for one in reversed(settled(situation, unseen=True)):
            text = text_of_result(one.result)
            told = call_of(one.call.name, one.call.input)
            read = _file_read(told)
            why = None
            if text is not None and len(text) >= _LEAST_CHARS and one.result.state != "interrupted":
                same = texts.setdefault((one.call.name, text), one.call)
                why = f"which came again, word for word, from a later {called(same)}" if same is not one.call else None
                newer = reads.get((one.call.name, one.call.input))
                if why is None and read is not None and newer is not None:
                    why = f"which a later {called(newer)} has read again"
                if why is None and read is not None and read in written:
                    why = f"which a later {called(written[read])} has replaced"
            edit = clear_edit(situation, one, superseded_text(one.call, why), rule=self.name) if why else None
            if edit is not None:
                edits.append(edit)
            if one.result.state == "success":
                _remember(one, told, read, reads, written)
        return tuple(reversed(edits))


def _remember(
    one: Settled,
    told: Call,
    read: str | None,
    reads: dict[tuple[str, str], ToolCallBlock],
    written: dict[str, ToolCallBlock],
) -> None:
    """Note what a call that went well makes out of date before it."""
    if read is not None:
        reads.setdefault((one.call.name, one.call.input), one.call)
    elif told.command is None:
        for path, operation in told.files:
            if operation in {"created", "deleted"}:
                written.setdefault(path, one.call)


def _file_read(told: Call) -> str | None:
    """Return the one file that a call does nothing but read."""
    return told.files[0][0] if len(told.files) == 1 and told.files[0][1] == "read" else None
