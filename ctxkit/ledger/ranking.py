"""How likely an identifier is needed again."""

import math
from collections.abc import Mapping
from typing import Final

from ctxkit.ledger.identifiers import is_opaque

# What a weight is worth was fitted on recorded agent runs (which identifiers does the agent use again?); near the
# optimum the result hardly moves, so the values are round.
_USED_WEIGHT: Final = 0.5
_LENGTH_WEIGHT: Final = 0.35
BOILERPLATE_COUNT: Final = 8
BOILERPLATE_SHARE: Final = 0.3


def score(name: str, blocks: int, used: int, newest: int, step: int) -> float:
    """Return how likely an identifier is needed again, per token that it takes.

    Args:
        name: The identifier.
        blocks: Blocks that name it.
        used: Blocks of the assistant that name it.
        newest: Step of the newest of those blocks.
        step: Blocks in the ledger.
    """
    return (
        math.log1p(blocks)
        + _USED_WEIGHT * math.log1p(used)
        - (step - newest) / max(step, 1)
        - _LENGTH_WEIGHT * math.log(len(name))
        - is_opaque(name)
    )


def best_first(scores: Mapping[str, float]) -> list[str]:
    """Return names by their scores, those of the same score by name."""
    # Two sorts that keep the order of equals, and no pair a name: thousands of those would have the garbage collector run.
    names = sorted(scores)
    names.sort(key=scores.__getitem__, reverse=True)
    return names
