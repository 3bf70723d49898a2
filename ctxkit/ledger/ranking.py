"""How likely an identifier is needed again."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from ctxkit.ledger.identifiers import is_opaque

# What a weight is worth was fitted on recorded agent runs (which identifiers does the agent use again?); near the
# optimum the result hardly moves, so the values are round.
_USED_WEIGHT: Final = 0.5
_LENGTH_WEIGHT: Final = 0.35
BOILERPLATE_COUNT: Final = 8
BOILERPLATE_SHARE: Final = 0.3


def scores(
    names: Sequence[str], blocks: Iterable[int], used: Iterable[int], newest: Iterable[int], *, step: int
) -> list[float]:
    """Return how likely each identifier is needed again, per token that it takes.

    Args:
        names: The identifiers.
        blocks: Blocks that name each.
        used: Blocks of the assistant that name each.
        newest: Step of the newest of those blocks.
        step: Blocks in the ledger.
    """
    span = max(step, 1)
    weights, costs, opaque = map(_weight, blocks, used), map(_cost, map(len, names)), map(is_opaque, names)
    columns = zip(weights, newest, costs, opaque, strict=True)
    return [weight - (step - last) / span - cost - says_nothing for weight, last, cost, says_nothing in columns]


@lru_cache(maxsize=4096)
def _weight(blocks: int, used: int) -> float:
    """Return what being named so often is worth; of ten thousands of names most are named once or twice."""
    return math.log1p(blocks) + _USED_WEIGHT * math.log1p(used)


@lru_cache(maxsize=256)
def _cost(chars: int) -> float:
    return _LENGTH_WEIGHT * math.log(chars)


def best_first(scores: Mapping[str, float]) -> list[str]:
    """Return names by their scores, those of the same score by name."""
    # Two sorts that keep the order of equals, and no pair a name: thousands of those would have the garbage collector run.
    names = sorted(scores)
    names.sort(key=scores.__getitem__, reverse=True)
    return names
