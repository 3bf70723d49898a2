"""Leave out the turns before the newest so many, whatever the context weighs; no summary tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ctxkit.strategies.leave import drop_edits, leavable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation
    from ctxkit.view import View


@dataclass(frozen=True)
class HistoryLimitStrategy:
    """Drops the turns before the newest `HistoryConfig.max_user_turns` of those that are over.

    The summary layer stays as it is: a limit in turns is about what is shown, and what it hides is found by recall.
    """

    name: str = field(default="history_limit", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that take the older turns away; what is pinned stays, and so does what is not finished."""
        indices = [
            index for turn in turns_over(situation.view, situation.settings.history.max_user_turns) for index in turn
        ]
        # Unlike a ladder, a limit keeps no open errors: it is about how far back the history goes.
        places = leavable(replace(situation, open_errors=frozenset()), indices)
        return drop_edits(situation, places, rule=self.name)


def turns_over(view: View, most: int | None) -> Iterator[range]:
    """Yield the turns that are over and stand before the newest so many, by the indices of their messages, oldest first.

    What stands before the first user message is no user's turn: it goes with the first of these, and not alone.
    """
    turns = () if most is None else view.finished_turns[: max(0, len(view.finished_turns) - most)]
    if any(view.messages[turn.start].role == "user" for turn in turns):
        yield from turns


def is_hidden(edit: Edit) -> bool:
    """Whether an edit takes away what no summary is to tell of."""
    return edit.rule == HistoryLimitStrategy.name
