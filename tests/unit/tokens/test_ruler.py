"""Heads and tails keep to their budget, waste little of it, and cost by the budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.tokens import ByteCounter, Counter, Ruler, default_counter
from ctxkit.tokens.grapheme import is_boundary
from tests.unit.tokens.samples import KINDS, prose

TEXTS = st.lists(
    st.sampled_from([*'ab {}":,\n\r1', "漢", "e\u0301", "\U0001f468\u200d\U0001f469", "\U0001f1e9", "\ud800"]),
    max_size=60,
).map("".join)


@pytest.mark.asyncio
@given(text=TEXTS, times=st.integers(1, 40), tokens=st.integers(0, 300), by_bytes=st.booleans())
@settings(max_examples=150, deadline=None)
async def test_head_and_tail_are_within_budget_and_cut_between_graphemes(
    text: str, times: int, tokens: int, by_bytes: bool
) -> None:
    ruler = Ruler(ByteCounter() if by_bytes else default_counter())
    whole = text * times

    head = await ruler.head(whole, tokens)
    tail = await ruler.tail(whole, tokens)

    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert await ruler.count(head) <= tokens
    assert await ruler.count(tail) <= tokens
    assert is_boundary(whole, len(head))
    assert is_boundary(whole, len(whole) - len(tail))


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [20, 500, 9000])
async def test_head_and_tail_use_the_budget(kind: str, tokens: int) -> None:
    ruler = Ruler(default_counter())
    text = KINDS[kind][0](2, 60_000)

    for part in (await ruler.head(text, tokens), await ruler.tail(text, tokens)):
        assert await ruler.count(part) >= 0.99 * tokens - 2


@pytest.mark.asyncio
async def test_a_text_within_the_budget_stays_whole() -> None:
    ruler = Ruler(default_counter())
    text = prose(3, 30_000)
    tokens = await ruler.count(text)

    assert (await ruler.head(text, tokens + 20), await ruler.tail(text, tokens + 20)) == (text, text)


@pytest.mark.asyncio
@pytest.mark.parametrize("tokens", [0, -5])
async def test_no_budget_buys_nothing(tokens: int) -> None:
    ruler = Ruler(default_counter())

    assert (await ruler.head("hello", tokens), await ruler.tail("hello", tokens)) == ("", "")


class Spy:
    """Adds up how many characters were counted."""

    name = "spy"

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.chars = 0

    def count(self, text: str) -> int:
        self.chars += len(text)
        return self._counter.count(text)


@pytest.mark.asyncio
async def test_a_cut_of_a_huge_text_costs_by_the_budget() -> None:
    spy = Spy(default_counter())
    text = prose(4, 10_000) * 2000

    await Ruler(spy).head(text, 1000)
    await Ruler(spy).tail(text, 1000)

    assert spy.chars < 150_000
