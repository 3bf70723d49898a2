"""Drop the thinking of turns that are over: providers read it within a turn only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind

if TYPE_CHECKING:
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True)
class ClearThinkingStrategy:
    """Drops thinking before the newest user request.

    In the running turn it stays: there it is signed, and a provider refuses calls without it.
    """

    name: str = field(default="clear_thinking", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each block of thinking that goes; what weighs nothing is not sent and stays."""
        view, tokens = situation.view, situation.tokens
        return tuple(
            Edit(
                kind=EditKind.DROP,
                message=index,
                message_id=view.messages[index].id,
                start=number,
                stop=number + 1,
                tokens=round(tokens[index][number]),
                rule=self.name,
            )
            for turn in view.finished_turns
            for index in turn
            if index not in situation.pinned and view.messages[index].id != view.reply_id
            for number, block in enumerate(view.contents[index])
            if block.type == "thinking" and tokens[index][number] > 0
        )
