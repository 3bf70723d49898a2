"""Weight: tokens by content class, the vector that everything is measured in."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxkit.tokens.classes import ContentClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLASSES: Final = tuple(ContentClass)
_COLUMNS: Final = tuple(map(operator.itemgetter, range(len(CLASSES))))
_INDEX: Final = {content_class: i for i, content_class in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True)
class Weight:
    """Tokens by content class, as the prior tokenizer counts them; a difference of two weights may be negative.

    The numbers are whole, so that sums and differences are exact however many are made.
    """

    tokens: tuple[float, ...]
    """One number a member of `ContentClass`, in its order."""

    @classmethod
    def zero(cls) -> Weight:
        """Return the weight of nothing."""
        return _ZERO

    @classmethod
    def of(cls, parts: Mapping[ContentClass, float]) -> Weight:
        """Return the weight that has these tokens, and none of the classes that are not named."""
        tokens = [0.0] * len(CLASSES)
        for content_class, count in parts.items():
            tokens[_INDEX[content_class]] = float(count)
        return cls(tuple(tokens))

    @classmethod
    def sum(cls, weights: Iterable[Weight]) -> Weight:
        """Return the sum of many weights, faster than adding them one by one."""
        # By columns and not by `zip`, whose thousands of iterators would have the garbage collector run.
        rows = [weight.tokens for weight in weights]
        return cls(tuple([float(sum(map(column, rows))) for column in _COLUMNS])) if rows else _ZERO

    @classmethod
    def from_json(cls, value: object) -> Weight:
        """Return the weight that `to_json` wrote.

        Raises:
            ValueError: The value is not one finite number a class.
        """
        if not isinstance(value, list) or len(value) != len(CLASSES) or not all(map(_is_finite, value)):
            msg = f"a weight is {value!r}: give a list of {len(CLASSES)} finite numbers."
            raise ValueError(msg)
        return cls(tuple(map(float, value)))

    def to_json(self) -> list[float]:
        """Return the numbers in the order of `ContentClass`."""
        return list(self.tokens)

    @property
    def total(self) -> float:
        """Tokens of all classes together."""
        return sum(self.tokens)

    def __getitem__(self, content_class: ContentClass) -> float:
        """Return the tokens of one class."""
        return self.tokens[_INDEX[content_class]]

    def __add__(self, other: Weight) -> Weight:
        """Return both together."""
        return Weight(tuple(map(operator.add, self.tokens, other.tokens)))

    def __sub__(self, other: Weight) -> Weight:
        """Return what this has more than the other; negative where it has less."""
        return Weight(tuple(map(operator.sub, self.tokens, other.tokens)))


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


_ZERO: Final = Weight((0.0,) * len(CLASSES))
