"""The engine on an agent that is none: when it acts, in which order, and what a failure leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from ctxkit import telemetry
from ctxkit.config import LadderConfig
from ctxkit.engine import Engine
from ctxkit.errors import StoreWriteError
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Reason
from ctxkit.port import AgentPort
from ctxkit.tokens import ByteCounter
from tests.unit.fakes import FakeCodec, FakeMsg, FakePort, agent, settings, step, user
from tests.unit.summary.fakes import GOOD, FakeModel

WINDOW = 32_768
TURNS = 20
SETTINGS = settings(ladder=LadderConfig(rungs=("summarize",)))
WORDS = "A plain sentence about the lexer and its tests. "


class Log:
    """What happened, in order: calls of the store and of the model, swaps and events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, dict[str, Any]] = {}

    async def emit(self, name: str, value: Any) -> None:
        self.lines.append(name)
        self.values[name] = dict(value)


class LoggedStore(MemoryStore):
    def __init__(self, log: Log, *, is_down: bool = False) -> None:
        super().__init__()
        self._log = log
        self._is_down = is_down

    async def append(self, session_id: str, records: Any) -> str:
        self._log.lines.append(f"stored {'+'.join(dict.fromkeys(record.kind for record in records))}")
        if self._is_down:
            raise OSError("the disk is full")
        return await super().append(session_id, records)


class LoggedPort(FakePort):
    log: Log

    async def checkpoint(self) -> None:
        self.log.lines.append("saved")

    async def swap(self, swap: Any) -> bool:
        self.log.lines.append("swapped")
        return await super().swap(swap)


def conversation(turns: int) -> list[FakeMsg]:
    turn = [(user(f"Question {n}?"), agent(*step(f"c{n}", WORDS * 120), f"Answer {n}.")) for n in range(turns)]
    return [message for pair in turn for message in pair]


def make_engine(turns: int, *, log: Log, answer: Any = GOOD, is_down: bool = False) -> tuple[Engine, LoggedPort]:
    def answered(sent: Any) -> Any:
        log.lines.append("asked")
        return answer

    port = LoggedPort(model=FakeModel(plain=[answered], context_size=WINDOW), context=conversation(turns))
    port.log = log
    codec = FakeCodec()
    guard = OffloadGuard(StoreOffloader(LoggedStore(log, is_down=is_down), codec), codec=codec, timeout_s=5)
    return Engine(port, codec, counter=ByteCounter(), guard=guard), port


def texts(messages: list[FakeMsg]) -> list[str]:
    return [block.text for message in messages for block in message.content if block.type == "text"]


def test_the_fake_agent_is_an_agent_port():
    assert isinstance(FakePort(model=FakeModel()), AgentPort)


@pytest.mark.asyncio
async def test_below_the_trigger_nothing_happens():
    log = Log()
    engine, port = make_engine(2, log=log)
    before = list(port.context)

    look = await engine.look(SETTINGS)
    receipt = await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=log.emit)

    assert (look.is_due, receipt.outcome) == (False, "unneeded")
    assert (port.context, log.lines) == (before, [])


@pytest.mark.asyncio
@pytest.mark.row("X1")
async def test_a_compression_stores_asks_writes_its_plan_and_summary_saves_and_swaps_in_this_order():
    log = Log()
    engine, port = make_engine(TURNS, log=log)

    look = await engine.look(SETTINGS)
    receipt = await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=log.emit)

    assert look.is_due
    assert (receipt.outcome, receipt.summary) == ("applied", "warm")
    assert [line for line in log.lines if not line.startswith("ctxkit")] == [
        "stored message",
        "asked",
        "stored plan",
        "stored summary",
        "stored change",
        "saved",
        "swapped",
    ]
    assert (log.lines[0], log.lines[-1]) == (telemetry.STARTED, telemetry.DONE)
    assert receipt.tokens_after < receipt.limit_tokens <= receipt.tokens_before
    assert "Question 0?" not in texts(port.context)
    assert f"Answer {TURNS - 1}." in texts(port.context)
    assert "Fix the parser." in str(port.summary)


@pytest.mark.asyncio
async def test_a_store_that_fails_leaves_the_context_and_costs_no_model_call():
    log = Log()
    engine, port = make_engine(TURNS, log=log, is_down=True)
    before = list(port.context)

    with pytest.raises(StoreWriteError, match="the disk is full"):
        await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=log.emit)

    assert (port.context, port.summary, port.swaps) == (before, "", [])
    assert "asked" not in log.lines
    [receipt] = engine.receipts
    assert log.values[telemetry.FAILED] == receipt.to_json()
    assert log.lines.count(telemetry.FAILED) == 1


@pytest.mark.asyncio
async def test_a_message_that_comes_during_the_summary_is_kept_behind_what_stays():
    log = Log()
    engine, port = make_engine(TURNS, log=log)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def emit(name: str, value: Any) -> None:
        if value.get("stage") == "summary":
            asked.set()
            await go_on.wait()

    compression = asyncio.create_task(engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=emit))
    await asked.wait()
    late = user("One more thing.")
    port.context.append(late)
    go_on.set()

    assert (await compression).outcome == "applied"
    assert port.context[-1] is late
    assert "Question 0?" not in texts(port.context)


@pytest.mark.asyncio
async def test_a_context_that_was_replaced_during_the_summary_is_left_alone():
    log = Log()
    engine, port = make_engine(TURNS, log=log)
    others = [user("Something else.")]

    async def emit(name: str, value: Any) -> None:
        if value.get("stage") == "summary":
            port.context = others

    receipt = await engine.compress(SETTINGS, reason=Reason.TRIGGER, emit=emit)

    assert (receipt.outcome, port.context) == ("failed", others)
    assert "changed while" in str(receipt.problems)


def test_the_engine_runs_without_agentscope():
    command = "import sys, ctxkit.engine; sys.exit('agentscope' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
