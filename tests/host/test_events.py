"""ctxkit's events in AgentScope's stream: live, complete, and fit for whoever consumes the host's events."""

import asyncio
import json

import pytest
from agentscope.event import CustomEvent, ReplyStartEvent
from agentscope.message import AssistantMsg

from ctxkit import (
    ContextConfig,
    ContextEvent,
    ContextUnfitError,
    MemoryStore,
    StoreError,
    StoreOffloader,
    SummaryConfig,
    SummaryError,
)
from ctxkit.engine.layer import Layers
from ctxkit.host._codec import HostCodec
from ctxkit.telemetry import STAGES
from ctxkit.testing import ScriptedModel, call, plain_summary
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    memory_offloader,
    receipts,
    text_of,
    told,
    user,
)

pytestmark = pytest.mark.asyncio

WINDOW = 8192
STARTED, STAGE, DONE = "compression.started", "compression.progress", "compression.done"
RUN = [STARTED, STAGE, STAGE, "summary.verified", STAGE, STAGE, DONE]


def an_agent(*script, turns=25, summaries=None, **settings):
    model = ScriptedModel([*script, "done"], context_size=WINDOW, enforce="cl100k", summaries=summaries)
    settings = {"offloader": memory_offloader(), "config": ContextConfig(trigger_ratio=0.5), **settings}
    agent = make_agent(model, **settings)
    agent.state.context.extend(history(turns, size=200))
    return agent


def strict() -> ContextConfig:
    return ContextConfig(
        trigger_ratio=0.5, compression_fallback_to_truncation=False, summary=SummaryConfig(retry_delay_s=0)
    )


def ours(events) -> list[ContextEvent]:
    return [event for event in events if isinstance(event, ContextEvent)]


async def test_a_compression_tells_its_start_its_stages_and_its_end():
    agent = an_agent()

    events = ours(await events_of(agent.reply_stream(user("Go on."))))

    assert told(events) == RUN
    assert [event.value["stage"] for event in events if event.name.endswith(STAGE)] == list(STAGES)
    [receipt] = applied(agent)
    started, done = events[0].value, events[-1].value
    assert (started["tokens_before"], started["limit_tokens"], started["context_size"]) == (
        receipt.tokens_before,
        int(0.5 * WINDOW),
        WINDOW,
    )
    assert (done["tokens_before"], done["tokens_after"]) == (receipt.tokens_before, receipt.tokens_after)
    assert done["tokens_after"] < done["tokens_before"]
    assert done["summary"] == receipt.summary
    assert {event.value["plan_id"] for event in events} == {receipt.plan_id}


async def test_events_come_while_the_summary_is_still_being_written():
    gate = asyncio.Event()

    async def slow(messages):
        await gate.wait()
        return plain_summary()

    agent = an_agent(summaries=slow)
    before, after = [], []

    async for event in agent.reply_stream(user("Go on.")):
        (after if gate.is_set() else before).extend(told([event]))
        if len(before) == 3:  # nothing more can come before the summary; without live events this waits for ever
            gate.set()

    assert before == RUN[:3]
    assert after == RUN[3:]


async def test_events_come_before_the_model_call_of_their_step():
    agent = an_agent()

    names = [getattr(event, "name", None) or type(event).__name__ for event in await events_of(agent.reply_stream(user("Go on.")))]  # fmt: skip

    assert names.index("ctxkit.compression.done") < names.index("ModelCallStartEvent")


async def test_every_event_carries_its_reply_and_survives_the_hosts_own_consumer():
    agent = an_agent(call("fetch", topic="long", size=4000), *fetches(20))
    events = await events_of(agent.reply_stream(user("Go on.")))
    start = next(event for event in events if isinstance(event, ReplyStartEvent))
    message = AssistantMsg(id=start.reply_id, name="scribe", content=[])

    for event in events:
        message.append_event(event)

    assert {event.reply_id for event in ours(events)} == {start.reply_id}
    assert "content.shortened" in told(events)
    assert "compression.done" in told(events)
    assert message.get_text_content().endswith("done")


async def test_every_value_is_plain_json_and_names_session_and_agent():
    agent = an_agent(call("fetch", topic="long", size=4000), *fetches(20))

    events = ours(await events_of(agent.reply_stream(user("Go on."))))

    for event in events:
        assert isinstance(event, CustomEvent)
        assert json.loads(json.dumps(event.value)) == event.value
        assert (event.value["session_id"], event.value["agent"]) == (agent.state.session_id, "scribe")
        assert type(event).model_validate_json(event.model_dump_json()).name == event.name


async def test_a_compression_that_is_given_up_says_why():
    agent = an_agent(summaries=RuntimeError("the model is down"), config=strict())

    events = ours(await events_of(agent.reply_stream(user("Go on."))))

    assert told(events)[0] == "compression.started"
    assert told(events)[-1] == "compression.failed"
    assert "the model is down" in str(events[-1].value["problems"])
    assert "Question 0:" in text_of(agent.state.context)


class FullStore(MemoryStore):
    """A store whose disk is full."""

    async def append(self, session_id, records):
        raise OSError("the disk is full")


def that_cannot_fit():
    model = ScriptedModel(["done"], context_size=512)
    return make_agent(model, prompt="All of this matters. " * 400, offloader=memory_offloader())


def with_a_bug(monkeypatch):
    async def layer(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Layers, "next", layer)
    return an_agent()


FAILURES = {
    "the store is down": (
        lambda _: an_agent(offloader=StoreOffloader(FullStore(), HostCodec())),
        StoreError,
        "the disk is full",
    ),
    "no summary": (
        lambda _: an_agent(summaries=RuntimeError("the model is down"), config=strict()),
        SummaryError,
        "the model is down",
    ),
    "a bug": (with_a_bug, ZeroDivisionError, "ZeroDivisionError: a bug"),
    "nothing fits": (lambda _: that_cannot_fit(), ContextUnfitError, "Biggest parts"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_compression_is_told_once_with_the_fields_of_its_receipt(failure, monkeypatch):
    make, error, problem = FAILURES[failure]
    agent = make(monkeypatch)
    told_of = []

    async def reply():
        async for event in agent.reply_stream(user("Go on.")):
            told_of.extend(ours([event]))

    if error is ContextUnfitError:
        with pytest.raises(ContextUnfitError):
            await reply()
    else:
        await reply()

    [failed] = [event.value for event in told_of if event.name.endswith("compression.failed")]
    [receipt] = receipts(agent)
    assert {name: failed[name] for name in receipt.to_json()} == receipt.to_json()
    assert (receipt.outcome, receipt.reason, receipt.tokens_after) == ("failed", "trigger", receipt.tokens_before)
    assert receipt.tokens_before > 0
    assert receipt.limit_tokens == int(agent.context_config.trigger_ratio * agent.model.context_size)
    assert problem in "; ".join(receipt.problems)
    assert {e.value["plan_id"] for e in told_of if "plan_id" in e.value} == {receipt.plan_id}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_manual_compression_is_raised_and_leaves_a_receipt(failure, monkeypatch):
    make, error, problem = FAILURES[failure]
    agent = make(monkeypatch)

    with pytest.raises(error):
        await agent.compress_context()

    [receipt] = receipts(agent)
    assert (receipt.outcome, receipt.reason, receipt.tokens_after) == ("failed", "manual", receipt.tokens_before)
    assert problem in "; ".join(receipt.problems)


async def test_a_cancelled_compression_leaves_no_receipt():
    asked = asyncio.Event()

    async def never(messages):
        asked.set()
        await asyncio.Event().wait()

    agent = an_agent(summaries=never)
    compression = asyncio.create_task(agent.compress_context())
    await asked.wait()

    compression.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compression

    assert receipts(agent) == ()


async def test_a_summary_without_a_model_is_told():
    config = ContextConfig(trigger_ratio=0.5, summary=SummaryConfig(retry_delay_s=0))
    agent = an_agent(summaries=RuntimeError("the model is down"), config=config)

    events = ours(await events_of(agent.reply_stream(user("Go on."))))

    assert events[-1].value["summary"] == "extractive"
    assert "the model is down" in str(events[-1].value["problems"])


async def test_a_result_that_was_shortened_is_told_with_its_sizes_and_its_place():
    agent = an_agent(call("fetch", topic="long", size=4000), turns=0)

    events = ours(await events_of(agent.reply_stream(user("Look it up."))))

    [event] = [event for event in events if event.name.endswith("content.shortened")]
    assert event.value["tool"] == "fetch"
    assert event.value["tokens_before"] > 4000 > event.value["tokens_after"]
    assert await agent.offloader.store.get(event.value["reference"])


async def test_a_reply_without_a_compression_tells_nothing():
    agent = an_agent(turns=0)

    assert told(await events_of(agent.reply_stream(user("Hello?")))) == []


async def test_a_manual_compression_sends_nothing_into_a_stream():
    agent = an_agent("one", turns=12)
    events = []

    async for event in agent.reply_stream(user("Go on.")):
        events.append(event)
        await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.2, reserve_ratio=0.05))

    assert len(applied(agent)) >= 1
    assert told(events) == []
