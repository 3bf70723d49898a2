"""Put one line in the place of each old tool result: what was called, how it went, where the original is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.strategies.cleared import LEAST_TOKENS, clear_edit, cleared_text
from ctxkit.strategies.settled import settled

if TYPE_CHECKING:
    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True, kw_only=True)
class ClearResultsStrategy:
    """Clears old tool results.

    The newest stay, and so do errors that nothing has resolved, and results that the model has not been shown yet.
    """

    keep_results: int = 3
    """So many of the newest tool results stay, at least 0."""
    name: str = field(default="clear_results", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each result that is longer than the line in its place."""
        edits = (
            clear_edit(situation, one, cleared_text(one.call, one.result), rule=self.name)
            for one in settled(situation, keep_newest=self.keep_results)
            if situation.tokens[one.result_place.message][one.result_place.block] > LEAST_TOKENS
        )
        return tuple(edit for edit in edits if edit is not None)
