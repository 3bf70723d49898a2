"""A prepared summary, on an agent that is none: what it stores, what it leaves alone, and what its failures cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ctxkit import telemetry
from ctxkit.config import LadderConfig, SummaryConfig
from ctxkit.engine import Engine
from ctxkit.errors import StoreWriteError, SummaryError
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Reason
from ctxkit.tokens import ByteCounter
from tests.unit.fakes import FakeCodec, FakeMsg, FakePort, agent, settings, step, user
from tests.unit.summary.fakes import GOOD, FakeModel

pytestmark = pytest.mark.asyncio

WINDOW = 32_768
ALMOST = 19
"""Turns with which the context is one step below its trigger."""
WORDS = "A plain sentence about the lexer and its tests. "
SETTINGS = replace(
    settings(), ladder=LadderConfig(rungs=("summarize",)), summary=SummaryConfig(attempts=1, retry_delay_s=0)
)


def conversation(turns: int) -> list[FakeMsg]:
    turn = [(user(f"Question {n}?"), agent(*step(f"c{n}", WORDS * 120), f"Answer {n}.")) for n in range(turns)]
    return [message for pair in turn for message in pair]


class Failing(MemoryStore):
    """A store whose calls fail from one on."""

    fails_from: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def append(self, session_id: str, records: Any) -> str:
        self.calls.append(records[0].kind)
        if self.fails_from is not None and len(self.calls) >= self.fails_from:
            raise OSError("the disk is full")
        return await super().append(session_id, records)


def an_engine(answer: Any = GOOD, *, store: MemoryStore | None = None, turns: int = ALMOST) -> tuple[Engine, FakePort]:
    port = FakePort(model=FakeModel(plain=[answer] * 9, context_size=WINDOW), context=conversation(turns))
    codec = FakeCodec()
    offloader = None if store is None else StoreOffloader(store, codec)
    return Engine(port, codec, counter=ByteCounter(), guard=OffloadGuard(offloader, codec=codec, timeout_s=5)), port


async def prepared(engine: Engine) -> None:
    preparation = await engine.preparation(await engine.look(SETTINGS), SETTINGS)
    assert preparation is not None
    await engine.prepare(preparation)


async def compressed(engine: Engine, port: FakePort) -> Any:
    """Let the context come to its trigger, and compress it."""
    port.context.extend(conversation(2))
    look = await engine.look(SETTINGS)
    assert look.is_due
    return await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=ignore)


async def ignore(name: str, value: Any) -> None:
    """Take an event."""


async def kinds_in(store: MemoryStore) -> list[str]:
    return [entry.kind async for entry in store.list("session")]


async def test_preparing_stores_what_will_leave_and_its_plan_and_changes_nothing():
    store = MemoryStore()
    engine, port = an_engine(store=store)
    before = list(port.context)

    await prepared(engine)

    assert (port.context, port.summary, port.swaps, port.charged) == (before, "", [], [])
    kinds = await kinds_in(store)
    assert kinds[-1] == "plan"
    assert set(kinds[:-1]) == {"message"}
    told = dict(engine.take_pending())[telemetry.PREPARED]
    assert (told["summary"], told["messages"]) == ("warm", len(kinds) - 1)


async def test_it_is_used_without_asking_or_storing_again_and_what_came_since_stays():
    store = Failing()
    engine, port = an_engine(store=store)
    await prepared(engine)
    asked = len(port.model.sent)
    assert store.calls == ["message", "plan"]

    receipt = await compressed(engine, port)

    assert (receipt.outcome, receipt.is_prepared, receipt.summary) == ("applied", True, "warm")
    assert len(port.model.sent) == asked
    assert "message" not in store.calls[2:]
    assert [message.content[0].text for message in port.context if message.role == "user"][-1] == "Question 1?"


async def test_without_a_store_it_is_used_as_well_as_long_as_the_process_lives():
    engine, port = an_engine()
    await prepared(engine)
    asked = len(port.model.sent)

    receipt = await compressed(engine, port)

    assert (receipt.is_prepared, len(port.model.sent)) == (True, asked)


async def test_as_long_as_a_summary_would_be_there_too_early_none_is_prepared():
    engine, _ = an_engine(turns=17)

    assert await engine.preparation(await engine.look(SETTINGS), SETTINGS) is None


async def test_what_is_ready_is_not_prepared_a_second_time():
    engine, port = an_engine(store=MemoryStore())
    await prepared(engine)
    port.context.append(user("And?"))

    assert await engine.preparation(await engine.look(SETTINGS), SETTINGS) is None


async def test_where_the_settings_forbid_it_nothing_is_prepared():
    engine, _ = an_engine()
    forbidden = replace(SETTINGS, summary=SummaryConfig(prepare=False))

    assert await engine.preparation(await engine.look(forbidden), forbidden) is None


async def test_a_store_that_is_down_costs_no_model_call():
    store = Failing()
    store.fails_from = 1
    engine, port = an_engine(store=store)

    with pytest.raises(StoreWriteError, match="the disk is full"):
        await prepared(engine)

    assert (port.model.sent, port.swaps) == ([], [])
    assert telemetry.STORE_FAILED in [name for name, _ in engine.take_pending()]


async def test_a_plan_that_cannot_be_stored_is_used_all_the_same_for_what_leaves_is_stored():
    store = Failing()
    store.fails_from = 2
    engine, port = an_engine(store=store)
    await prepared(engine)
    store.fails_from = None

    receipt = await compressed(engine, port)

    assert receipt.is_prepared


async def test_a_model_that_fails_is_not_asked_again_before_half_of_the_way_to_the_trigger_and_then_once_more():
    engine, port = an_engine("no idea")

    with pytest.raises(SummaryError, match="No summary could be prepared"):
        await prepared(engine)
    port.context.append(user("And?"))
    assert await engine.preparation(await engine.look(SETTINGS), SETTINGS) is None
    receipt = await compressed(engine, port)

    assert (receipt.outcome, receipt.is_prepared, receipt.summary) == ("applied", False, "extractive")


async def test_what_a_summary_cost_that_is_thrown_away_is_charged_once():
    engine, port = an_engine(store=MemoryStore())
    await prepared(engine)
    port.context = [port.context[0], *port.context[2:]]

    await engine.look(SETTINGS)
    await engine.look(SETTINGS)

    assert len(port.charged) == 1
    assert [name for name, _ in engine.take_pending()].count(telemetry.PREPARED_REJECTED) == 1
