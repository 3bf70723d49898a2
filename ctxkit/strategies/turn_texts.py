"""Keep of each turn that is over what the user asked first and what the agent answered last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.strategies.leave import drop_edits, leavable
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation
    from ctxkit.view import View


@dataclass(frozen=True)
class TurnTextsStrategy:
    """Drops everything between the first user text and the last reply of each turn before the newest request."""

    name: str = field(default="turn_texts", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that take the rest away; pinned messages stay as they are."""
        return keep_texts(situation, situation.view.finished_turns)


def keep_texts(situation: Situation, turns: Iterable[range]) -> tuple[Edit, ...]:
    """Return the edits that leave of turns, by the indices of their messages, the first user text and the last reply."""
    turns, view, staying = tuple(turns), situation.view, set[Place]()
    for turn in turns:
        texts = set(_texts_of(view, turn))
        is_answered = any(view.messages[place.message].role != "user" for place in texts)
        staying |= texts if is_answered or turn == turns[-1] else texts | _end_of(view, turn)
    places = leavable(situation, (index for turn in turns for index in turn))
    return drop_edits(situation, places - staying, rule="turn_texts")


def _end_of(view: View, turn: range) -> set[Place]:
    """Return the places of the last thing that happened in a turn without a reply, a call with its result.

    Without it the turn would be one with the next, of whose user text nothing would be left the next time.
    """
    end = max((Place(index, len(view.contents[index]) - 1) for index in turn if view.contents[index]), default=None)
    pair = next((e for e in view.exchanges if end is not None and end in (e.call, e.result)), None)
    found = {end} if pair is None else {pair.call, pair.result}
    return {place for place in found if place is not None}


def _texts_of(view: View, turn: range) -> Iterator[Place]:
    """Yield the places of a turn's first user text and of its last reply."""
    texts = [
        Place(index, number)
        for index in turn
        for number, block in enumerate(view.contents[index])
        if block.type == "text"
    ]
    yield from [place for place in texts if view.messages[place.message].role == "user"][:1]
    last: Place | None = None
    for place in reversed(texts):
        if view.messages[place.message].role != "assistant" or (
            last is not None and place != last._replace(block=last.block - 1)
        ):
            break
        yield place
        last = place
