"""Taking a compression back gives what was there before, over every context, well-formed or hostile."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from agentscope.state import AgentState
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ctxkit.config import CostConfig, LadderConfig, Price, SummaryConfig
from ctxkit.config.ladder import PRICED_RUNGS
from ctxkit.engine import Engine
from ctxkit.engine.steer.bill import bill_of_receipt
from ctxkit.errors import CtxkitError
from ctxkit.host._codec import HostCodec
from ctxkit.host._state_port import StatePort
from ctxkit.host.steering import Steering
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Reason
from ctxkit.port import Answer, Request, Usage
from ctxkit.tokens import ByteCounter
from tests.property.contexts import AGENT, Context, Ids, contexts, requests, running
from tests.property.plans import policies
from tests.property.recorded import RECORDINGS, sampled
from tests.unit import fakes
from tests.unit.summary.fakes import GOOD, FakeModel

if TYPE_CHECKING:
    from ctxkit.config import Settings
    from tests.property.plans import Policy

CODEC = HostCodec()
COST = Usage(input_tokens=100, output_tokens=10)
anything = contexts() | contexts(hostile=True)
many = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)

PER_SOURCE, MOST_TOKENS = (None, 10**9) if os.environ.get("CTXKIT_RECORDED_FULL") else (4, 60_000)


class ModelledPort(StatePort):
    """A state with a model that always summarises well, and reports what that cost."""

    def __init__(self, state: AgentState, context_size: int) -> None:
        super().__init__(state)
        self._model = FakeModel(plain=[Answer(text=GOOD, usage=COST)] * 50, context_size=context_size)

    @property
    def name(self) -> str:
        return AGENT

    @property
    def model(self) -> Any:
        return self._model

    async def request(self) -> Request:
        layers = [CODEC.system_message("You help.")]
        if self.summary:
            layers.append(CODEC.user_message(self.summary))
        return Request(messages=[*layers, *self.context])

    async def host_count(self, pieces: Any) -> int:
        return 0


def state_of(context: Context, summary: Any = "") -> AgentState:
    state = AgentState(context=list(context.messages), summary=summary)
    state.reply_id = context.reply_id
    return state


def engine_of(state: AgentState, store: MemoryStore, context_size: int) -> Engine:
    guard = OffloadGuard(StoreOffloader(store, CODEC), codec=CODEC, timeout_s=5)
    return Engine(ModelledPort(state, context_size), CODEC, counter=ByteCounter(), guard=guard)


def seen(state: AgentState) -> tuple[Any, Any]:
    """Return context and summary as JSON; usage is left out, for what a summary cost stays booked."""
    dumped = json.loads(state.model_dump_json())
    return [{**message, "usage": None} for message in dumped["context"]], dumped["summary"]


def booked(state: AgentState) -> int:
    """Return the input tokens that are booked in a context."""
    return sum(message.usage.input_tokens for message in state.context if message.usage is not None)


async def quiet(name: str, value: Any) -> None:
    """Take events."""


def config_of(policy: Policy | None, **sections: Any) -> Settings:
    """Return settings under which nothing waits."""
    summary = SummaryConfig(attempts=1, retry_delay_s=0)
    return replace(fakes.settings() if policy is None else policy.settings, summary=summary, **sections)


async def compressed(engine: Engine, config: Settings) -> str | None:
    """Compress, and return the plan that was carried out; None where nothing was."""
    try:
        receipt = await engine.compress(config, reason=Reason.MANUAL, emit=quiet, force=True)
    except CtxkitError:
        return None
    return receipt.plan_id if receipt.outcome == "applied" else None


@many
@given(anything, policies, st.sampled_from(["", "An earlier summary by hand."]))
def test_taking_a_compression_back_gives_the_context_of_before(context: Context, policy: Policy, summary: str):
    async def scenario() -> None:
        state, store = state_of(context, summary), MemoryStore()
        before, cost = seen(state), booked(state)
        engine = engine_of(state, store, policy.context_size)
        plan_id = await compressed(engine, config_of(policy))
        assume(plan_id is not None)
        usage = engine.receipts[-1].usage
        undone = await Steering(state, store=store).undo(plan_id)
        assert (undone.outcome, undone.why) == ("undone", "")
        assert seen(state) == before
        assert booked(state) == cost + (0 if usage is None else usage.input_tokens)

    asyncio.run(scenario())


@many
@given(anything, policies)
def test_it_does_so_after_a_restart_and_for_one_compression_upon_another(context: Context, policy: Policy):
    async def scenario() -> None:
        state, store = state_of(context), MemoryStore()
        earlier, plans = [], []
        for _ in range(3):
            before = seen(state)
            plan_id = await compressed(engine_of(state, store, policy.context_size), config_of(policy))
            if plan_id is not None:
                earlier.append(before)
                plans.append(plan_id)
        assume(plans)
        again = AgentState.model_validate_json(state.model_dump_json())
        while plans:
            if len(plans) > 1:
                refused = await Steering(again, store=store).undo(plans[0])
                assert refused.outcome == "refused"
                assert plans[-1] in refused.why
            undone = await Steering(again, store=store).undo(plans.pop())
            assert (undone.outcome, undone.why) == ("undone", "")
            assert seen(again) == earlier.pop()
        assert (await Steering(again, store=store).undo()).outcome == "refused"

    asyncio.run(scenario())


@many
@given(anything, policies)
def test_a_preview_shows_the_tokens_and_the_money_that_carrying_it_out_then_shows(context: Context, policy: Policy):
    async def scenario() -> None:
        state = state_of(context)
        before = seen(state)
        engine = engine_of(state, MemoryStore(), policy.context_size)
        config = config_of(policy, cost=CostConfig(price=Price(input_usd=3.0)))
        try:
            preview = await engine.steer.preview(config)
        except CtxkitError:
            assume(False)
        assert seen(state) == before
        receipt = await engine.compress(config, reason=Reason.MANUAL, emit=quiet, force=True)
        assert (preview.plan_id is not None) == (receipt.outcome == "applied")
        shown = (preview.tokens_before, preview.tokens_after, preview.stable_tokens)
        assert (receipt.tokens_before, receipt.tokens_after, receipt.stable_tokens) == pytest.approx(shown, rel=0.01)
        if preview.bill is not None:
            bill = bill_of_receipt(config.cost.price, receipt)
            assert bill is not None
            assert bill.dollars == pytest.approx(preview.bill.dollars, rel=0.01)

    asyncio.run(scenario())


@many
@given(anything, policies, st.data())
def test_what_came_since_stays_behind_it(context: Context, policy: Policy, data: st.DataObject):
    async def scenario() -> None:
        state, store = state_of(context), MemoryStore()
        before = seen(state)
        plan_id = await compressed(engine_of(state, store, policy.context_size), config_of(policy))
        assume(plan_id is not None)
        ids = Ids()
        since = [*data.draw(requests(ids)), *data.draw(running(ids, "reply-since"))]
        for number, message in enumerate(since):
            message.id = f"since-{number}"
        state.context.extend(since)
        undone = await Steering(state, store=store).undo()
        assert (undone.outcome, undone.why) == ("undone", "")
        came = seen(AgentState(context=since))[0]
        assert seen(state)[0] == [*before[0], *came]

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS.exists(), reason="the recordings lie beside the repository")
@pytest.mark.parametrize("rungs", [("summarize",), PRICED_RUNGS], ids=["summary", "all rungs"])
@pytest.mark.parametrize("context_size", [8_000, 32_000])
def test_recorded_runs_are_the_same_when_their_compressions_are_taken_back(rungs: tuple[str, ...], context_size: int):
    """Of each source some runs, long ones too; with `CTXKIT_RECORDED_FULL` set all of them."""

    async def scenario() -> None:
        undone = 0
        for name, messages in sampled(per_source=PER_SOURCE, most_tokens=MOST_TOKENS):
            state, store = state_of(Context(messages=[], reply_id="none")), MemoryStore()
            engine = engine_of(state, store, context_size)
            wholes = []
            part = -(-len(messages) // 3)
            for start in range(0, len(messages), part):
                # What was there before is compressed, and goes on.
                state.context.extend(messages[start : start + part])
                before = seen(state)
                if await compressed(engine, config_of(None, ladder=LadderConfig(rungs=rungs))) is not None:
                    wholes.append((before, start + part))
            is_redacted = False
            while wholes:
                what = await Steering(state, store=store).undo()
                assert (what.outcome, what.why) == ("undone", ""), name
                is_redacted |= bool(what.redacted)  # and is so in all that is taken back from here on
                (context, summary), stop = wholes.pop()
                came = seen(AgentState(context=messages[stop:]))[0]
                assert is_redacted or seen(state) == ([*context, *came], summary), name
                undone += not is_redacted
        assert undone > 15

    asyncio.run(scenario())
