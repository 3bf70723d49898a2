"""The stages that go by turns: half of them where there are too many, then their texts alone, or half again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.strategies.drop_turns import drop_turns
from ctxkit.strategies.turn_texts import keep_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True, kw_only=True)
class TurnStages:
    """Drops and thins the turns before the newest request; the running turn stays as it is."""

    most_tokens: float
    """The request has at most so many tokens afterwards, as far as turns can bring that about."""
    texts_below: int | None = None
    """Below so many turns each keeps its first user text and its last reply; from so many on the older half leaves, again and
    again. `None` does neither."""
    halve: bool = False
    """The older half of the turns, rounded down, leaves first, whatever the request weighs."""
    name: str = field(default="turn_stages", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits of all stages that are needed; pinned messages stay."""
        turns = situation.view.complete_turns
        gone = len(turns) // 2 if self.halve else 0
        edits = drop_turns(situation, turns[:gone])
        while self.texts_below is not None and self._is_over(situation, edits):
            left = len(turns) - gone
            if left < self.texts_below:
                return (*edits, *keep_texts(situation, turns[gone:]))
            if left < 2:  # noqa: PLR2004 - the older half of one turn is none
                break
            gone += left // 2
            edits = drop_turns(situation, turns[:gone])
        return edits

    def _is_over(self, situation: Situation, edits: Iterable[Edit]) -> bool:
        return situation.request_tokens - sum(edit.tokens for edit in edits) > self.most_tokens
