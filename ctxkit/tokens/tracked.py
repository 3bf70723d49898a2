"""Weights of a list that mostly grows: only items that are new objects are weighed again.

Lists are compared by identity at C speed: `==` on messages would compare whole contents field by field.
"""

from __future__ import annotations

import operator
from itertools import compress, count
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ctxkit.tokens.weight import Weight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")

_FRONT: Final = 2
"""Items that the host makes anew for each request: the system prompt and the summary."""
_NEWEST: Final = 256
"""Only so many items at the end may be open: imported tool results often say for ever that they still run."""
_SHIFTED: Final = 8
"""More changed places than this mean that items moved: then known ones are looked for by identity."""


class TrackedWeights(Generic[T]):
    """The weights of a list's items, and their sum, kept from one call to the next.

    The items of the last call are held, so that no other object can take their identity.

    Args:
        weigh: Weighs one item.
        is_open: Tells which of the newest items may still grow in place; these, and the last one, are weighed again
            each time. A change inside any other item is not seen, until another object stands in its place.
    """

    def __init__(self, weigh: Callable[[T], Awaitable[Weight]], *, is_open: Callable[[T], bool]) -> None:
        self._weigh = weigh
        self._is_open = is_open
        self._items: list[T] = []
        self._weights: list[Weight] = []
        self._open: set[int] = set()
        """Places of the open items and of the last one."""
        self._total = Weight.zero()
        self._by_identity: dict[int, Weight] | None = None

    async def update(self, live: Iterable[T]) -> Weight:
        """Return the weight of all items together.

        What is kept is replaced in one step at the end, so a cancelled or concurrent call leaves it whole.

        Args:
            live: The items as they are now.
        """
        items = list(live)
        changed = self._changed_places(items)
        weights, total, todo = self._moved(items) if len(changed) > _SHIFTED else self._in_place(items, changed)
        opened = {len(items) - 1} if items else set()
        for place in todo:
            weights[place] = weight = await self._weigh(items[place])
            total += weight
            if place >= len(items) - _NEWEST and self._is_open(items[place]):
                opened.add(place)
        self._items, self._weights, self._open, self._total = items, weights, opened, total
        self._by_identity = None
        return total

    def known(self, item: T) -> Weight | None:
        """Return the weight of an item of the last call; `None` where it was none, or may have grown since."""
        return self._known().get(id(item))

    def _known(self) -> dict[int, Weight]:
        """Return the weights by identity, made when they are first asked for; the items are held, so ids are theirs."""
        if self._by_identity is None:
            self._by_identity = dict(zip(map(id, self._items), self._weights, strict=True))
            for place in self._open:
                self._by_identity.pop(id(self._items[place]), None)
        return self._by_identity

    def _changed_places(self, items: list[T]) -> list[int]:
        """Return where another object stands than before; most often nowhere but in front, which is fastest to tell."""
        front = [
            place
            for place in range(min(_FRONT, len(items), len(self._items)))
            if items[place] is not self._items[place]
        ]
        if all(map(operator.is_, items[_FRONT:], self._items[_FRONT:])):
            return front
        return list(compress(count(), map(operator.is_not, items, self._items)))

    def _in_place(self, items: list[T], changed: list[int]) -> tuple[list[Weight], Weight, list[int]]:
        """Return weights and sum of what stands where it stood, zeros for the rest, and the places of the rest."""
        shared = min(len(items), len(self._items))
        stale = sorted(place for place in self._open.union(changed) if place < shared)
        weights = self._weights[:shared]
        gone = [*self._weights[shared:], *(weights[place] for place in stale)]
        for place in stale:
            weights[place] = Weight.zero()
        weights.extend([Weight.zero()] * (len(items) - shared))
        return weights, self._total - Weight.sum(gone), [*stale, *range(shared, len(items))]

    def _moved(self, items: list[T]) -> tuple[list[Weight], Weight, list[int]]:
        """Return the same where items moved: those that stood anywhere before, and are not open, are known."""
        known = self._known()
        todo = [place for place, item in enumerate(items) if id(item) not in known]
        weights = [known.get(id(item), Weight.zero()) for item in items]
        return weights, Weight.sum(weights), todo
