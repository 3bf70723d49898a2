"""Which blocks of finished turns may leave, and the edits that take them away, tool chains whole."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctxkit.strategies._base import Situation


def leavable(situation: Situation, messages: Iterable[int]) -> set[Place]:
    """Return the places of all blocks of messages that may leave together.

    Pinned messages stay, and so do those of the running reply. A call and its result stay where either does.

    Args:
        situation: The context.
        messages: Indices of messages of finished turns.
    """
    view = situation.view
    places = {
        Place(index, number)
        for index in messages
        if index not in situation.pinned and view.messages[index].id != view.reply_id
        for number in range(len(view.contents[index]))
    }
    for exchange in view.exchanges:
        pair = {exchange.call} if exchange.result is None else {exchange.call, exchange.result}
        if not pair <= places or exchange.call_id in situation.open_errors or view.is_unfinished(exchange.call):
            places -= pair
    return places


def drop_edits(situation: Situation, places: Collection[Place], *, rule: str) -> tuple[Edit, ...]:
    """Return one edit for each run of neighbouring blocks that leaves."""
    edits = []
    numbered = enumerate(sorted(places))
    for (message, _), found in groupby(numbered, key=lambda one: (one[1].message, one[1].block - one[0])):
        run = [place for _, place in found]
        start, stop = run[0].block, run[-1].block + 1
        edits.append(
            Edit(
                kind=EditKind.DROP,
                message=message,
                message_id=situation.view.messages[message].id,
                start=start,
                stop=stop,
                tokens=round(sum(situation.tokens[message][start:stop])),
                rule=rule,
            )
        )
    return tuple(edits)
