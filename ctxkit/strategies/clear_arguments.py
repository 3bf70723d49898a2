"""Cut the huge arguments of calls that are over, a whole file that was written for example, to their ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind
from ctxkit.strategies.settled import settled

if TYPE_CHECKING:
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True, kw_only=True)
class ClearArgumentsStrategy:
    """Cuts huge arguments of old calls; they stay valid JSON with the same keys."""

    limit_tokens: int = 500
    """Smaller arguments stay as they are."""
    keep_tokens: int = 100
    """Tokens that may stand there afterwards, below `limit_tokens`."""
    keep_calls: int = 5
    """Arguments of so many of the newest calls that have a result stay, at least 0."""
    name: str = field(default="clear_arguments", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each call whose arguments are over the limit."""
        edits = []
        for one in settled(situation, keep_newest=self.keep_calls, cleared=True):
            place = one.call_place
            stood = situation.tokens[place.message][place.block]
            if stood > self.limit_tokens:
                edits.append(
                    Edit(
                        kind=EditKind.TRUNCATE,
                        message=place.message,
                        message_id=situation.view.messages[place.message].id,
                        start=place.block,
                        stop=place.block + 1,
                        tokens=round(stood),
                        keep_tokens=self.keep_tokens,
                        rule=self.name,
                    )
                )
        return tuple(edits)
