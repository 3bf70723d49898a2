"""A prepared summary under faults: wherever its store, its model or its task fails, nothing is lost and nothing goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ctxkit import telemetry
from ctxkit.config import TriggersConfig
from ctxkit.engine import Engine
from ctxkit.errors import StoreWriteError, SummaryError
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Reason
from ctxkit.port import Answer
from ctxkit.sessions.lanes import PROCESS_LANES, session_lane, summary_lane
from tests.unit.engine.test_prepare import SETTINGS, an_engine, compressed, conversation, ignore, prepared
from tests.unit.fakes import FakeCodec, FakePort
from tests.unit.summary.fakes import GOOD, USAGE

pytestmark = pytest.mark.asyncio

MOST_TURNS = 3000


class Tripping(MemoryStore):
    """A store of which one call fails, or all from one on; each takes a turn of the event loop."""

    def __init__(self, *, fails_at: int = 0, for_ever: bool = False) -> None:
        super().__init__()
        self.calls = 0
        self.fails_at = fails_at
        self.for_ever = for_ever

    async def append(self, session_id: str, records: Any) -> str:
        self.calls += 1
        await asyncio.sleep(0)
        if self.fails_at and (self.calls == self.fails_at or (self.for_ever and self.calls > self.fails_at)):
            raise OSError("the disk is full")
        return await super().append(session_id, records)


async def everything_of(engine: Engine, port: FakePort) -> str:
    """Return all that is in the context or in the store."""
    store = engine.guard.store
    assert store is not None
    entries = [entry async for entry in store.list("session")]
    stored = [await store.get(entry.reference, entry.offset, entry.size) for entry in entries]
    return repr(port.context) + "".join(part.decode() for part in stored)


async def lost(engine: Engine, port: FakePort, messages: list[Any]) -> list[str]:
    """Return the texts that are neither in the context nor in the store."""
    everything = await everything_of(engine, port)
    said = [block.text for message in messages for block in message.content if block.type == "text"]
    return [text for text in said if text not in everything]


def check_idle() -> None:
    """Check that no task runs and that nobody stands on a lane."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not any(PROCESS_LANES.is_busy(lane("session")) for lane in (session_lane, summary_lane))


async def a_round(engine: Engine, port: FakePort) -> list[Any]:
    """Let a summary be prepared and used, whatever fails of it; return the messages that there were."""
    with suppress(StoreWriteError, SummaryError):
        await prepared(engine)
    port.context.extend(conversation(2))
    before = list(port.context)
    await engine.look(SETTINGS)
    try:
        await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=ignore)
    except StoreWriteError:
        assert port.context == before
    return before


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "from then on"])
async def test_a_store_that_fails_at_any_write_loses_nothing_and_is_tried_again(for_ever):
    number, calls = 0, 1
    while number < calls:
        number += 1
        store = Tripping(fails_at=number, for_ever=for_ever)
        engine, port = an_engine(store=store)

        before = await a_round(engine, port)
        store.fails_at, calls = 0, max(calls, store.calls)
        receipt = await engine.compress(SETTINGS, reason=Reason.MANUAL, emit=ignore, force=True)

        assert receipt.outcome in {"applied", "unneeded"}
        assert [one.outcome for one in engine.receipts].count("applied") >= 1
        assert await lost(engine, port, before) == []
        check_idle()
    assert calls >= 4


async def cancelled_in(turn: int, work: Any) -> bool:
    """Run something, cancel it after so many turns of the event loop; return whether it was."""
    task = asyncio.ensure_future(work)
    for _ in range(turn):
        await asyncio.sleep(0)
    is_cancelled = not task.done() and task.cancel()
    await asyncio.wait([task])
    return is_cancelled


async def test_a_preparation_that_is_cancelled_at_any_moment_leaves_all_as_it_was():
    turn, is_cancelled = 0, True
    while is_cancelled:
        engine, port = an_engine(store=Tripping())
        before = (list(port.context), port.summary)
        preparation = await engine.preparation(await engine.look(SETTINGS), SETTINGS)
        assert preparation is not None

        is_cancelled = await cancelled_in(turn, engine.prepare(preparation))

        assert (port.context, port.summary, port.swaps) == (*before, [])
        check_idle()
        again = await engine.preparation(await engine.look(SETTINGS), SETTINGS)
        if again is not None:
            await engine.prepare(again)
        receipt = await compressed(engine, port)
        assert (receipt.outcome, receipt.summary) == ("applied", "warm")
        assert len(port.model.sent) <= 2
        assert await lost(engine, port, before[0]) == []
        turn += 5
        assert turn < MOST_TURNS
    assert turn > 50


async def test_the_swap_of_a_prepared_plan_that_is_cancelled_at_any_moment_is_done_or_not_done_and_paid_for_once():
    turn, is_cancelled, outcomes = 0, True, set()
    while is_cancelled:
        engine, port = an_engine(store=Tripping())
        await prepared(engine)
        port.context.extend(conversation(2))
        before = list(port.context)
        await engine.look(SETTINGS)

        is_cancelled = await cancelled_in(turn, engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=ignore))

        outcomes.add(len(port.swaps))
        assert len(port.swaps) <= 1
        assert port.swaps or port.context == before
        check_idle()
        if not port.swaps:
            await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=ignore)
        assert [len(port.swaps), len(port.model.sent)] == [1, 1]
        assert await lost(engine, port, before) == []
        turn += 7
        assert turn < MOST_TURNS
    assert outcomes == {0, 1}


@pytest.mark.parametrize(
    "answer",
    [OSError("gone"), "no idea", Answer(interrupted=True, text=GOOD, usage=USAGE), Answer(text="", usage=USAGE)],
    ids=["raises", "says something else", "is interrupted", "says nothing"],
)
async def test_a_model_that_makes_no_summary_leaves_none_and_breaks_after_three_times(answer):
    engine, port = an_engine(store=MemoryStore())
    port.model.plain[:] = [answer] * 50
    close = replace(SETTINGS, triggers=TriggersConfig(min_gain_ratio=0.005))
    told: list[str] = []
    failures = 0

    for _ in range(200):
        look = await engine.look(close)
        preparation = await engine.preparation(look, close)
        if preparation is not None:
            failures += 1
            with pytest.raises(SummaryError):
                await engine.prepare(preparation)
        told += [name for name, _ in engine.take_pending()]
        if telemetry.BREAKER in told or look.tokens > 31_000:
            break
        port.context[-1].content.extend(conversation(1)[1].content[:3])
        port.context[-1].content[-1].output = "a few words " * 20

    assert failures == 3
    assert told.count(telemetry.BREAKER) == 1
    assert port.swaps == []
    check_idle()


async def test_what_is_pinned_while_its_summary_is_made_is_not_taken_away():
    engine, port = an_engine(store=MemoryStore())
    preparation = await engine.preparation(await engine.look(SETTINGS), SETTINGS)
    assert preparation is not None
    pinned = port.context[0]
    await engine.steer.pin(pinned, SETTINGS)
    await engine.prepare(preparation)

    told = [name for name, _ in engine.take_pending()]
    assert (told.count(telemetry.PREPARED_REJECTED), told.count(telemetry.PREPARED)) == (1, 0)
    assert len(port.charged) == 1
    receipt = await compressed(engine, port)
    assert receipt.outcome == "applied"
    assert pinned in port.context


async def test_a_summary_of_what_is_pinned_afterwards_is_let_go_of_and_another_one_prepared():
    engine, port = an_engine(store=MemoryStore())
    await prepared(engine)
    pinned = port.context[2]
    await engine.steer.pin(pinned, SETTINGS)
    await engine.look(SETTINGS)
    assert len(port.charged) == 1
    port.context.extend(conversation(1))  # by now a summary is known to take no time, so it is begun late

    await prepared(engine)
    receipt = await compressed(engine, port)

    assert (receipt.outcome, receipt.is_prepared) == ("applied", True)
    assert pinned in port.context


async def test_what_was_stored_elsewhere_is_stored_again_before_it_leaves():
    engine, port = an_engine(store=MemoryStore())
    before = list(port.context)
    preparation = await engine.preparation(await engine.look(SETTINGS), SETTINGS)
    assert preparation is not None
    codec = FakeCodec()
    engine.store_through(OffloadGuard(StoreOffloader(MemoryStore(), codec), codec=codec, timeout_s=5))
    await engine.prepare(preparation)

    assert telemetry.PREPARED_REJECTED in [name for name, _ in engine.take_pending()]
    await compressed(engine, port)
    assert await lost(engine, port, before) == []


async def test_the_time_for_which_a_reply_waits_for_its_user_is_no_measure_of_a_step():
    now = 0.0
    engine, port = an_engine()
    engine.clock = lambda: now
    for seconds in (2.0, 2.0, 3600.0, 2.0):
        if seconds > 60:
            now += seconds
            engine.begins()
        await engine.look(SETTINGS)
        now += 2.0

    assert port.slot["pace"]["step_s"] == 2.0
