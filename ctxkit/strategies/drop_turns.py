"""Drop the oldest half of the turns that are over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.strategies.leave import drop_edits, leavable

if TYPE_CHECKING:
    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True)
class DropTurnsStrategy:
    """Drops whole turns, the oldest half of those before the newest request, rounded down.

    Each time that it is asked it drops half of what is left.
    """

    name: str = field(default="drop_turns", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that take the turns away; pinned messages among them stay."""
        turns = situation.view.finished_turns
        oldest = [index for turn in turns[: len(turns) // 2] for index in turn]
        return drop_edits(situation, leavable(situation, oldest), rule=self.name)
