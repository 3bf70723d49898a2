"""Long texts are counted in pieces, near enough, without stalling the loop, and once only."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.tokens import ContentClass, count, count_text, default_counter
from ctxkit.tokens.count import PIECE_CHARS, cut_pieces, weigh_text
from tests.unit.tokens.samples import KINDS, WordCounter, json_rows, prose


@pytest.fixture(autouse=True)
def empty_memo(monkeypatch: pytest.MonkeyPatch) -> OrderedDict[object, object]:
    memo: OrderedDict[object, object] = OrderedDict()
    monkeypatch.setattr(count, "_memo", memo)
    return memo


@given(st.text(alphabet="ab \n漢", max_size=50), st.integers(1, 2000))
@settings(max_examples=50)
def test_pieces_are_short_and_make_up_the_whole(text: str, times: int) -> None:
    pieces = list(cut_pieces(text * times))

    assert "".join(pieces) == text * times
    assert all(0 < len(piece) <= PIECE_CHARS for piece in pieces)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", KINDS)
async def test_the_pieces_have_within_a_thousandth_what_the_whole_has(kind: str) -> None:
    counter = default_counter()
    text = KINDS[kind][0](5, 120_000)

    assert await count_text(text, counter) == pytest.approx(counter.count(text), rel=0.001)


@pytest.mark.asyncio
async def test_counting_four_megabytes_never_stalls_the_loop() -> None:
    counter = default_counter()
    text = (prose(1, 500_000) + json_rows(1, 500_000)) * 4
    gaps: list[float] = []

    async def beat() -> None:
        last = time.thread_time()  # processor time: other programs' share is no stall of ours
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    heart = asyncio.create_task(beat())
    await count_text(text, counter)
    heart.cancel()

    assert len(gaps) > 20
    assert max(gaps) < 0.05


@pytest.mark.asyncio
async def test_many_short_texts_share_one_budget_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr("ctxkit.tokens.count.time.perf_counter", lambda: next(clock) * 0.001)
    monkeypatch.setattr(count, "_served_at", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for i in range(100):
        await count_text(f"text {i}", WordCounter())
    task.cancel()

    assert 10 <= turns <= 30


@pytest.mark.asyncio
async def test_an_equal_text_is_counted_once_also_where_it_is_a_copy() -> None:
    counter = WordCounter()
    text = prose(2, 20_000)

    first = await count_text(text, counter)
    calls = len(counter.calls)
    second = await count_text("".join(list(text)), counter)

    assert (second, len(counter.calls)) == (first, calls)


@pytest.mark.asyncio
async def test_a_text_that_grew_is_counted_from_where_it_grew() -> None:
    counter = WordCounter()
    text = prose(2, 80_000)
    await count_text(text, counter)
    counter.calls.clear()

    await count_text(text + " and more", counter)

    assert len(counter.calls) == 1


@pytest.mark.asyncio
async def test_the_memory_of_counts_is_bounded(
    monkeypatch: pytest.MonkeyPatch, empty_memo: OrderedDict[object, object]
) -> None:
    monkeypatch.setattr(count, "_MEMO_ENTRIES", 10)
    counter = WordCounter()

    for i in range(30):
        await count_text(f"text number {i}", counter)

    assert len(empty_memo) == 10


@pytest.mark.asyncio
async def test_a_mixed_text_is_weighed_by_the_class_of_each_part() -> None:
    weight = await weigh_text(prose(1, 16_000) + json_rows(1, 16_000), default_counter())

    assert weight[ContentClass.PROSE] > 2000
    assert weight[ContentClass.JSON] > 3000
