"""A ruler and a codec that need neither a vocabulary nor AgentScope."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from ctxkit.results import Limits
from ctxkit.tokens.grapheme import ceil_cut, floor_cut


class QuarterRuler:
    """Counts a token for every four bytes of UTF-8; looks at no more of a text than it must."""

    async def count(self, text: str) -> int:
        return -(-len(text.encode("utf-8", "surrogatepass")) // 4)

    async def head(self, text: str, tokens: int) -> str:
        window = text[: max(0, 4 * tokens)].encode("utf-8", "surrogatepass")[: max(0, 4 * tokens)]
        fits = len(window.decode("utf-8", "ignore")) if b"\xed" not in window else self._fitting(text, tokens)
        return text[: floor_cut(text, fits)]

    async def tail(self, text: str, tokens: int) -> str:
        fits = self._fitting(text[max(0, len(text) - 4 * max(0, tokens)) :][::-1], tokens)
        return text[ceil_cut(text, len(text) - fits) :]

    def _fitting(self, text: str, tokens: int) -> int:
        room = 4 * max(0, tokens)
        for index, char in enumerate(text[: room + 1]):
            room -= len(char.encode("utf-8", "surrogatepass"))
            if room < 0:
                return index
        return min(len(text), 4 * max(0, tokens))


@dataclass(frozen=True)
class FakeText:
    text: str
    type: str = "text"


@dataclass(frozen=True)
class FakeSource:
    media_type: str = "image/png"
    type: str = "base64"
    data: str = ""


@dataclass(frozen=True)
class FakeData:
    tokens: int
    name: str | None = None
    type: str = "data"
    source: FakeSource = field(default_factory=FakeSource)


class FakeCodec:
    def text(self, text: str) -> FakeText:
        return FakeText(text)

    def with_text(self, block: FakeText, text: str) -> FakeText:
        return replace(block, text=text)


def make_limits(
    tokens: int, *, head_ratio: float = 0.6, placement: str = "gap", verbatim: bool = False, recall: bool = False
) -> Limits:
    return Limits(tokens=tokens, head_ratio=head_ratio, placement=placement, verbatim=verbatim, recall=recall)


async def longest_stall(work: Callable[[], Awaitable[object]]) -> float:
    """Run some work and return the longest time, in seconds, for which no other task had a turn.

    It is the loop's own processor time, so that a busy machine does not count; and what other tests left in memory is
    kept from the garbage collector, so that its passes over it do not count either.
    """
    longest = 0.0
    done = asyncio.Event()

    async def beat() -> None:
        nonlocal longest
        last = time.thread_time()
        while not done.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest = max(longest, now - last)
            last = now

    gc.collect()
    gc.freeze()
    heart = asyncio.create_task(beat())
    await asyncio.sleep(0)
    try:
        await work()
    finally:
        gc.unfreeze()
        done.set()
        await heart
    return longest


@pytest.fixture
def ruler() -> QuarterRuler:
    return QuarterRuler()


@pytest.fixture
def codec() -> FakeCodec:
    return FakeCodec()


@pytest.fixture
def stall() -> Callable[[Callable[[], Awaitable[object]]], Awaitable[float]]:
    return longest_stall


@pytest.fixture
def text_block() -> type[FakeText]:
    return FakeText


@pytest.fixture
def data_block() -> type[FakeData]:
    return FakeData


@pytest.fixture(scope="module")
def ruler_for_properties() -> QuarterRuler:
    """Give one ruler to all examples of a property; it has no state."""
    return QuarterRuler()


@pytest.fixture(scope="module")
def make() -> Callable[..., Limits]:
    """Give the maker of limits to properties, too."""
    return make_limits
