"""`await agent.compress_context()`: a no-op below the trigger, forced by a one-off config, safe at any time (row A6)."""

import asyncio
import copy

import pytest
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import HintBlock, TextBlock

from ctxkit import CompressionMiddleware, ContextConfig, LadderConfig, Reason, StoreError, SummaryConfig, SummaryError
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    receipts,
    text_of,
    told,
    user,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.row("A6")]

WINDOW = 16384
LOW = ContextConfig(trigger_ratio=0.2, reserve_ratio=0.05, ladder=LadderConfig(rungs=("summarize",)))
"""A one-off config that compresses now."""


def a_model(*script, **settings) -> ScriptedModel:
    return ScriptedModel(script, **{"context_size": WINDOW, "enforce": "cl100k", **settings})


def an_agent(*script, turns=0, **settings):
    model = settings.pop("model", None) or a_model(*script, "done")
    agent = make_agent(model, **{"offloader": memory_offloader(), **settings})
    agent.state.context.extend(history(turns))
    return agent


def whole(agent):
    return copy.deepcopy((agent.state.context, agent.state.summary))


class BrokenOffloader:
    """Fails whatever it is asked."""

    async def offload_context(self, session_id, msgs, **kwargs):
        raise OSError("the disk is full")

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        raise OSError("the disk is full")


# When it acts


async def test_below_the_trigger_it_changes_nothing_and_calls_no_model():
    agent = an_agent(turns=10)
    before = whole(agent)

    await agent.compress_context()

    assert whole(agent) == before
    assert agent.model.requests == []
    assert [(r.outcome, r.reason) for r in receipts(agent)] == [("unneeded", Reason.MANUAL)]


@pytest.mark.parametrize("config", [ContextConfig(trigger_ratio=0.6), HostContextConfig(trigger_ratio=0.6)], ids=["ours", "host's"])  # fmt: skip
async def test_below_the_trigger_of_the_config_that_is_passed_it_changes_nothing(config):
    agent = an_agent(turns=12, config=ContextConfig(trigger_ratio=0.25))
    before = whole(agent)

    await agent.compress_context(context_config=config)

    assert whole(agent) == before
    assert receipts(agent)[-1].limit_tokens == int(0.6 * WINDOW)


@pytest.mark.parametrize("config", [LOW, HostContextConfig(trigger_ratio=0.2, reserve_ratio=0.05)], ids=["ours", "host's"])  # fmt: skip
async def test_above_the_trigger_of_the_config_that_is_passed_it_compresses(config):
    agent = an_agent(turns=12)

    await agent.compress_context(context_config=config)

    [receipt] = applied(agent)
    assert receipt.reason is Reason.MANUAL
    assert receipt.tokens_after < receipt.tokens_before
    assert len(agent.state.context) < 24


async def test_instructions_reach_the_summary_prompt():
    agent = an_agent(turns=12)
    hint = HintBlock(hint=[TextBlock(text="Keep every port number.")])

    await agent.compress_context(context_config=LOW, instructions=hint)
    agent.state.context.extend(history(12, prefix="later"))
    await agent.compress_context(context_config=LOW, instructions=HintBlock(hint="Keep every colour."))

    first, second = (text_of(request.messages[-1:]) for request in agent.model.summary_requests)
    assert "Keep every port number." in first
    assert "Keep every colour." in second
    assert "Keep every port number." not in second


async def test_it_goes_on_after_a_compression_by_hand():
    agent = an_agent(*fetches(5), turns=12)

    await agent.compress_context(context_config=LOW)
    await agent.reply(user("And five more."))
    await agent.compress_context(context_config=LOW)

    assert orphans(agent.state.context) == []
    assert len(agent.model.chats) == 6


# At any time


async def test_between_turns():
    agent = an_agent("one", "two", turns=12)

    await agent.reply(user("First."))
    await agent.compress_context(context_config=LOW)
    await agent.reply(user("Second."))

    assert [receipt.reason for receipt in applied(agent)] == [Reason.MANUAL]
    assert text_of(agent.state.context[-2:]).startswith("Second.")


@pytest.mark.parametrize("config", [None, LOW], ids=["the agent's own config", "a one-off config"])
async def test_in_the_loop_body_of_a_running_reply_after_each_event(config):
    agent = an_agent(*fetches(3), turns=12, config=ContextConfig(trigger_ratio=0.5, reserve_ratio=0.05))
    calls = 0

    async for _ in agent.reply_stream(user("Look up three topics.")):
        await agent.compress_context(context_config=config)
        calls += 1

    manual = [receipt for receipt in receipts(agent) if receipt.reason is Reason.MANUAL]
    assert len(manual) == calls
    assert orphans(agent.state.context) == []
    assert len(agent.model.chats) == 4
    assert "done" in text_of(agent.state.context[-1:])
    assert agent.state.context[-1].id == agent.state.reply_id
    assert all(orphans(request.messages) == [] for request in agent.model.chats)


async def test_after_a_break_out_of_the_stream():
    agent = an_agent(*fetches(8), turns=12)
    stream = agent.reply_stream(user("Look up eight topics."))
    async for event in stream:
        if len(agent.model.chats) == 4 and type(event).__name__ == "ToolResultEndEvent":
            break

    await agent.compress_context(context_config=LOW)
    compressed = receipts(agent)[-1]
    await stream.aclose()
    await agent.compress_context(context_config=LOW)
    await agent.reply(user("Never mind."))

    assert (compressed.reason, compressed.outcome) == (Reason.MANUAL, "applied")
    assert {receipt.reason for receipt in receipts(agent)} <= {Reason.MANUAL, Reason.TRIGGER}
    assert "Never mind." in text_of(agent.state.context)


async def test_twice_at_once_pays_one_summary():
    agent = an_agent(turns=12)

    await asyncio.gather(*(agent.compress_context(context_config=LOW) for _ in range(2)))

    assert sorted(receipt.outcome for receipt in receipts(agent)) == ["applied", "unneeded"]
    assert len(agent.model.summary_requests) == 1
    log = (await agent.offloader.store.get(applied(agent)[0].reference)).decode()
    assert [line.count("Question 0:") for line in log.splitlines() if '"role"' in line].count(1) == 1


async def test_a_manual_call_beside_a_running_reply_waits_for_its_compression():
    gate = asyncio.Event()
    plain = {"task_overview": "a", "current_state": "b", "important_discoveries": "c", "next_steps": "d", "context_to_preserve": "e"}  # fmt: skip

    async def summary(messages):
        await gate.wait()
        return plain

    agent = an_agent(model=a_model("done", summaries=summary), turns=12, config=LOW)
    started = asyncio.Event()

    async def reply():
        async for event in agent.reply_stream(user("Go on.")):
            if told([event]) == ["compression.started"]:
                started.set()

    running = asyncio.create_task(reply())
    await started.wait()
    beside = asyncio.create_task(agent.compress_context())
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(running, beside)

    assert [(r.reason, r.outcome) for r in receipts(agent)] == [
        (Reason.TRIGGER, "applied"),
        (Reason.MANUAL, "unneeded"),
    ]
    assert len(agent.model.summary_requests) == 1


async def test_in_a_tool_of_the_same_agent():
    agents = []

    async def tidy() -> str:
        """Tidy up."""
        await agents[0].compress_context(context_config=LOW)
        await agents[0].compress_context()
        return "tidied"

    agent = an_agent(*fetches(2), call("tidy"), *fetches(2, prefix="more"), turns=12, tools=[fetch, tidy])
    agents.append(agent)

    await agent.reply(user("Look up, tidy, look up."))

    assert [(r.reason, r.outcome) for r in receipts(agent)] == [(Reason.MANUAL, "applied"), (Reason.MANUAL, "unneeded")]
    assert orphans(agent.state.context) == []
    assert len(agent.model.chats) == 6
    assert "tidied" in text_of(agent.state.context)


@pytest.mark.parametrize("shared", [True, False], ids=["one middleware", "two middlewares"])
async def test_in_a_tool_of_a_nested_agent(shared):
    middleware = CompressionMiddleware()
    inner = an_agent(*fetches(20, size=400), turns=0, middlewares=[middleware], name="inner", config=ContextConfig(trigger_ratio=0.4))  # fmt: skip
    outer_box = []

    async def delegate(task: str) -> str:
        """Delegate.

        Args:
            task (str): The task.
        """
        await outer_box[0].compress_context(context_config=LOW)
        reply = await inner.reply(user(task))
        await inner.compress_context(context_config=LOW)
        return reply.get_text_content()

    outer = an_agent(
        *fetches(2),
        call("delegate", task="Look up 20 topics."),
        turns=12,
        tools=[fetch, delegate],
        middlewares=[middleware if shared else CompressionMiddleware()],
    )
    outer_box.append(outer)

    await outer.reply(user("Delegate it."))

    assert [receipt.reason for receipt in applied(outer)] == [Reason.MANUAL]
    assert applied(inner)[0].reason is Reason.TRIGGER
    assert {receipt.reason for receipt in receipts(inner)} == {Reason.TRIGGER, Reason.MANUAL}
    assert orphans(outer.state.context) == []
    assert orphans(inner.state.context) == []


async def test_before_the_agent_has_ever_replied():
    agent = an_agent(turns=20, config=LOW)

    await agent.compress_context()

    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]
    assert len(agent.model.chats) == 0


async def test_on_an_empty_context():
    agent = an_agent()

    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.001, reserve_ratio=0.0005))

    assert receipts(agent)[-1].outcome == "unneeded"
    assert agent.state.context == []


async def test_the_automatic_call_of_a_reply_is_never_taken_for_a_manual_one():
    agent = an_agent(*fetches(40))

    events = await events_of(agent.reply_stream(user("Look up forty topics.")))

    assert {receipt.reason for receipt in receipts(agent)} == {Reason.TRIGGER}
    assert told(events).count("compression.done") == len(applied(agent))


# What a person gets raised


async def test_a_store_that_is_down_raises_and_nothing_is_touched():
    config = LOW.replace(offload=ContextConfig().offload.__class__(local_copy=False))
    agent = an_agent(turns=12, offloader=BrokenOffloader(), config=config)
    before = whole(agent)

    with pytest.raises(StoreError, match="the disk is full"):
        await agent.compress_context()

    assert whole(agent) == before
    assert agent.model.requests == []


async def test_a_summary_that_cannot_be_had_raises_where_no_fallback_is_wanted():
    config = LOW.replace(compression_fallback_to_truncation=False, summary=SummaryConfig(retry_delay_s=0))
    agent = an_agent(model=a_model(summaries=RuntimeError("down")), turns=12, config=config)
    before = whole(agent)

    with pytest.raises(SummaryError, match="down"):
        await agent.compress_context()

    assert whole(agent) == before


async def test_an_automatic_compression_with_a_store_that_is_down_raises_nothing():
    config = LOW.replace(offload=ContextConfig().offload.__class__(local_copy=False))
    agent = an_agent("fine", turns=12, offloader=BrokenOffloader(), config=config)

    events = await events_of(agent.reply_stream(user("Go on.")))

    assert "compression.failed" in told(events)
    assert "Question 0:" in text_of(agent.state.context)
    assert "fine" in text_of(agent.state.context[-1:])
    assert len(agent.model.summary_requests) == 0


@pytest.mark.row("A6")
async def test_compact_compresses_below_the_trigger_and_looks_after_its_focus():
    middleware = CompressionMiddleware()
    model = ScriptedModel([], context_size=64_000)
    agent = make_agent(model, offloader=memory_offloader(), middlewares=[middleware])
    agent.state.context.extend([*history(40, size=400), user("Go on.")])
    await agent.compress_context()
    assert model.requests == []

    receipt = await middleware.compact(agent, focus="Mind the harbour.")

    assert (receipt.outcome, receipt.tokens_after < receipt.tokens_before) == ("applied", True)
    assert "Mind the harbour." in text_of(model.requests[-1].messages)
    assert agent.state.context[-1].get_text_content() == "Go on."
