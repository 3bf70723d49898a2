"""Keep of long tool results of earlier turns their beginning and their end, whatever the context weighs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind
from ctxkit.tokens import block_chars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.strategies._base import Situation
    from ctxkit.view import Place, View


@dataclass(frozen=True)
class OldResultsStrategy:
    """Cuts the tool results of turns that are over to `HistoryConfig.old_result_chars`; the running turn stays as it is.

    What was cut is within the limit, so that it has the same bytes from then on.
    """

    name: str = field(default="old_results", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each result that is too long; pinned messages stay whole."""
        most = situation.settings.history.old_result_chars
        if most is None:
            return ()
        return tuple(
            cut_edit(situation, place, keep_chars=most, rule=self.name)
            for place in old_results(situation.view, most)
            if place.message not in situation.pinned
        )


def old_results(view: View, most_chars: int) -> Iterator[Place]:
    """Yield the places of the tool results of earlier turns that have more than so many characters.

    Results of the message that the running reply appends to are no earlier ones, wherever its turn began.
    """
    end = view.finished_turns[-1].stop if view.finished_turns else 0
    for place, block in view.blocks():
        if place.message >= end:
            return
        is_old = block.type == "tool_result" and view.messages[place.message].id != view.reply_id
        if is_old and block_chars(block) > most_chars:
            yield place


def cut_edit(situation: Situation, place: Place, *, keep_chars: int, rule: str) -> Edit:
    """Return the edit that leaves of a block's text so many characters, of its beginning and of its end."""
    stood = situation.tokens[place.message][place.block]
    chars = block_chars(situation.view.contents[place.message][place.block])
    return Edit(
        kind=EditKind.TRUNCATE,
        message=place.message,
        message_id=situation.view.messages[place.message].id,
        start=place.block,
        stop=place.block + 1,
        tokens=round(stood),
        keep_tokens=ceil(stood * min(1.0, keep_chars / max(1, chars))),
        keep_chars=keep_chars,
        rule=rule,
    )
