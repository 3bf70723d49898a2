"""What a run costs where the provider's prompt cache serves exact prefixes: each request as it was sent, summaries too.

A request's beginning is served from the cache as far as it is that of the last chat request, or of the last summary
request; the rest is written to it. Nothing expires, and any prefix is found, whatever its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchmarks._trajectory import EXCERPT_TOKENS, USER_TOKENS
from ctxkit import Price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks._trajectory import Trajectory

SHEETS: dict[str, Price] = {
    "r0.10 w1.25": Price(cached=0.10, written=1.25, output=5),
    "r0.05 w1.25": Price(cached=0.05, written=1.25, output=5),
    "r0.10 w1": Price(cached=0.10, written=1, output=8),
    "r0.02 w1": Price(cached=0.02, written=1, output=4),
    "r0.20 w1": Price(cached=0.20, written=1, output=4),
    "no cache": Price(cached=1, written=1, output=5),
}
"""Price sheets by name, in uncached input tokens: Claude, Claude 5.5, GPT-5 and Gemini, DeepSeek, Kimi and GLM, none."""
MAIN_SHEET = "r0.10 w1.25"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One model call as the provider bills it."""

    kind: Literal["chat", "summary", "memory"]
    tokens: int
    """Of the request."""
    reused: int
    """Those at its beginning that the cache serves."""
    before: int
    """Tokens of the last chat request that was sent before it; 0 where there was none."""
    answered: int
    """Tokens of the answer."""

    def price(self, sheet: Price) -> float:
        """Return what the call costs, in uncached input tokens."""
        fresh = self.tokens - self.reused
        return sheet.cached * self.reused + sheet.written * fresh + sheet.output * self.answered


def total(calls: Iterable[Call], sheet: Price) -> float:
    """Return what calls cost together, in uncached input tokens."""
    return sum(call.price(sheet) for call in calls)


class PrefixCache:
    """Remembers the last request of each kind, part by part, and says how much of the next one it begins."""

    def __init__(self) -> None:
        self._last: dict[str, Sequence[str]] = {}

    def take(self, kind: str, parts: Sequence[str], tokens: Sequence[int]) -> int:
        """Return the tokens of a request that the cache serves, and remember the request.

        Args:
            kind: Whose last request it replaces.
            parts: The request as it is sent, in the order in which a provider caches it: tools, messages.
            tokens: Of each part.
        """
        reused = max((_shared(parts, tokens, last) for last in self._last.values()), default=0)
        self._last[kind] = parts
        return reused


def least_price(trajectory: Trajectory, sheet: Price, *, fixed_tokens: int, result_limit: int) -> float:
    """Return what no context management can go below, in uncached input tokens.

    Each token is written once, and only what is still needed is read: what is fixed, what users said, the last ten steps,
    and of each older result that is needed again what a look at it shows. No real one gets there: what is taken out
    of the middle breaks the prefix.
    """
    steps = trajectory.steps
    last = {step.need.step: step.number for step in steps if step.need is not None}
    admitted = [min(step.result_tokens, result_limit) for step in steps]
    users = 0
    price = sheet.written * fixed_tokens
    for step in steps:
        users += USER_TOKENS if step.is_user else 0
        recent = range(max(0, step.number - 10), step.number)
        live = fixed_tokens + users + sum(steps[number].answer_tokens + admitted[number] for number in recent)
        live += sum(
            min(admitted[number], EXCERPT_TOKENS)
            for number, until in last.items()
            if number < recent.start and until >= step.number
        )
        new = step.answer_tokens + admitted[step.number] + (USER_TOKENS if step.is_user else 0)
        price += sheet.cached * live + sheet.written * new + sheet.output * step.answer_tokens
    return price


def _shared(parts: Sequence[str], tokens: Sequence[int], last: Sequence[str]) -> int:
    """Return the tokens of the common beginning, to the character."""
    reused = 0
    for part, count, other in zip(parts, tokens, last, strict=False):
        if part != other:
            return reused + count * _common_chars(part, other) // max(1, len(part))
        reused += count
    return reused


def _common_chars(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
