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
    turns = tuple(turns)
    staying = {place for turn in turns for place in _texts_of(situation.view, turn)}
    places = leavable(situation, (index for turn in turns for index in turn))
    return drop_edits(situation, places - staying, rule="turn_texts")


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
