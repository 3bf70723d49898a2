"""How many of some ranked items fit a token budget, with few calls of the counter."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import Final

Count = Callable[[str], Awaitable[int]]
"""Returns the tokens of a text."""

_CHARS_PER_TOKEN: Final = 3.0
"""First guess only; the counter corrects it."""

_TRIES: Final = 8
_NEAR: Final = 0.98
"""A result this close to the budget is good enough."""


async def count_fitting(items: Sequence[str], limit_tokens: int, count: Count, *, separator: str = "\n") -> int:
    """Return how many leading items, joined by the separator, have at most `limit_tokens` tokens.

    The number is never too large; it may be a little smaller than possible.
    """
    ends = list(accumulate(len(item) + len(separator) for item in items))
    fits, too_many = 0, len(items) + 1
    chars = limit_tokens * _CHARS_PER_TOKEN
    for _ in range(_TRIES if limit_tokens > 0 else 0):
        guess = min(max(bisect_right(ends, chars), fits + 1), too_many - 1)
        if guess <= fits:
            break
        tokens = await count(separator.join(items[:guess]))
        if tokens <= limit_tokens:
            fits = guess
            if tokens >= _NEAR * limit_tokens:
                break
        else:
            too_many = guess
        chars = ends[guess - 1] * limit_tokens / max(tokens, 1)
    return fits
