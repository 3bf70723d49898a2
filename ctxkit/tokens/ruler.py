"""Ruler: the longest start or end of a text that a number of tokens buys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxkit.tokens.count import PIECE_CHARS, count_text, serve_loop
from ctxkit.tokens.grapheme import ceil_cut, floor_cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxkit.tokens.counter import Counter

_CHARS_PER_TOKEN: Final = 6
"""How many characters are tried first for a token; more than most content has, so that one try mostly ends it."""
_LEAST_TRY_CHARS: Final = 256
_TRIES: Final = 24
"""Most narrowing steps within a piece; halving 8,192 characters takes 13, the rest is a reserve."""


class Ruler:
    """Measures and cuts texts by tokens; the cost of a cut goes with the budget, not with the text.

    Args:
        counter: Counts a piece of text.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return await count_text(text, self._counter)

    async def head(self, text: str, tokens: int) -> str:
        """Return the longest start of a text that has at most `tokens` tokens, no grapheme cut.

        Long texts are measured in pieces, so the result may be shorter than possible by about one token in a thousand.
        """
        size = await self._size(len(text), tokens, lambda a, b: text[a:b])
        while True:  # each round is shorter; one or two are all it takes
            start = text[: floor_cut(text, size)]
            over = await self.count(start) - tokens
            if over <= 0 or not start:
                return start
            size = max(0, len(start) - over)

    async def tail(self, text: str, tokens: int) -> str:
        """Return the longest end of a text that has at most `tokens` tokens, no grapheme cut; see `head`."""
        length = len(text)
        size = await self._size(length, tokens, lambda a, b: text[length - b : length - a])
        while True:
            end = text[ceil_cut(text, length - size) :]
            over = await self.count(end) - tokens
            if over <= 0 or not end:
                return end
            size = max(0, len(end) - over)

    async def _size(self, length: int, tokens: int, cut: Callable[[int, int], str]) -> int:
        """Return how many characters, from the side that `cut` counts from, have at most `tokens` tokens.

        Args:
            length: Characters of the whole text.
            tokens: The budget.
            cut: Returns the characters from the first to before the second place, counted from that side.
        """
        done, left = 0, tokens
        while done < length and left > 0:
            stop = min(length, done + min(PIECE_CHARS, max(_LEAST_TRY_CHARS, left * _CHARS_PER_TOKEN)))
            used = self._counter.count(cut(done, stop))
            await serve_loop()
            if used > left:
                return await self._narrow(done, stop, left, used, cut)
            done, left = stop, left - used
        return done

    async def _narrow(self, start: int, stop: int, left: int, used: int, cut: Callable[[int, int], str]) -> int:
        """Return the place between `start` and `stop` up to which `left` tokens reach, where `used` reach `stop`."""
        low, low_tokens, high, high_tokens = start, 0, stop, used
        for attempt in range(_TRIES):
            if high - low <= 1:
                break
            share = (left - low_tokens) / (high_tokens - low_tokens) if attempt % 2 == 0 else 0.5
            middle = min(max(low + int((high - low) * share), low + 1), high - 1)
            tokens = self._counter.count(cut(start, middle))
            await serve_loop()
            if tokens > left:
                high, high_tokens = middle, tokens
            else:
                low, low_tokens = middle, tokens
        return low
