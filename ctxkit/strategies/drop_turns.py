"""Drop the oldest half of the turns that are over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.strategies.leave import drop_edits, leavable

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        return drop_turns(situation, turns[: len(turns) // 2])


def drop_turns(situation: Situation, turns: Iterable[range]) -> tuple[Edit, ...]:
    """Return the edits that take turns away, by the indices of their messages; pinned messages among them stay."""
    places = leavable(situation, (index for turn in turns for index in turn))
    return drop_edits(situation, places, rule="drop_turns")
