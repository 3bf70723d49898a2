"""A reply may be cancelled at any moment: it ends clean, its context is that of before or that of after, and it goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agentscope.event import ReplyEndEvent
from agentscope.message import Msg

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace, SummaryConfig
from ctxkit.testing import ScriptedModel, call, plain_summary
from tests.host.agents import (
    applied,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    summary_text,
    text_of,
    user,
)

pytestmark = pytest.mark.asyncio

WINDOW = 8192
TURNS = 25
MOST_TICKS = 5000


class Slow(ScriptedModel):
    """A model whose every call takes a few turns of the event loop, as the network does."""

    async def _call_api(self, *args, **kwargs):
        for _ in range(3):
            await asyncio.sleep(0)
        return await super()._call_api(*args, **kwargs)


class SlowStore:
    """An offloader whose calls take a few turns of the event loop."""

    def __init__(self):
        self._inner = memory_offloader()
        self.store = self._inner.store

    async def offload_context(self, session_id, msgs, **kwargs):
        for _ in range(3):
            await asyncio.sleep(0)
        return await self._inner.offload_context(session_id, msgs)

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        for _ in range(3):
            await asyncio.sleep(0)
        return await self._inner.offload_tool_result(session_id, tool_result)


def an_agent(*script, turns=TURNS, **settings):
    model = Slow([*script, "done", "going on"], context_size=WINDOW, enforce="cl100k")
    agent = make_agent(model, **{"offloader": SlowStore(), **settings})
    agent.state.context.extend(history(turns, size=200))
    return agent


async def cancelled_at(tick: int, work: Callable[[], Any]) -> tuple[asyncio.Task, int]:
    """Run something and cancel it in the given turn of the event loop; return its task and the turns it took.

    Turns in which nothing ran count as one: how many of them there are while a thread works says only how long it takes.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    turns, is_idle = 0, False

    def turn() -> None:
        nonlocal turns, is_idle
        was_idle, is_idle = is_idle, not loop._ready  # no public way tells whether anything else is to run
        if not (was_idle and is_idle):
            turns += 1
            if turns == tick:
                task.cancel()
        if not task.done() and turns < MOST_TICKS:
            loop.call_soon(turn)

    loop.call_soon(turn)
    await asyncio.wait({task})
    return task, turns


async def everything_of(agent) -> str:
    """Return all that is in the context or in the store."""
    store = agent.offloader.store
    stored = [await store.get(e.reference, e.offset, e.size) async for e in store.list(agent.state.session_id)]
    return text_of(agent.state.context) + "".join(part.decode() for part in stored)


async def check(agent, before: list[str]) -> None:
    """Check that nothing is lost, nothing is torn, and nothing still runs but a summary that is being prepared."""
    prepares = {task for task in asyncio.all_tasks() if task.get_name().startswith("ctxkit-prepare-")}
    if prepares:
        await asyncio.wait(prepares)
    everything = await everything_of(agent)
    assert [text for text in before if text not in everything] == []
    assert orphans(agent.state.context) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    if applied(agent):
        assert "Part 1:" in summary_text(agent)
    else:
        assert agent.state.summary == ""
        assert [i for i in range(TURNS) if f"Question {i}:" not in text_of(agent.state.context)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [list, lambda: [call("fetch", topic="big", size=2500), *fetches(2)]],
    ids=["a compression", "a compression and an oversized result"],
)
async def test_a_reply_that_is_cancelled_in_any_turn_of_the_loop_ends_clean_and_goes_on(script):
    before = [f"its number is {number_of(f'old-{i}')}" for i in range(TURNS)]
    outcomes = {"before": 0, "after": 0}
    tick = finished = 0
    while not finished:
        tick += 1
        assert tick < MOST_TICKS
        agent = an_agent(*script())
        events: list[Any] = []

        async def reply(agent=agent, events=events):
            async for event in agent.reply_stream(user("Go on."), yield_final_msg=True):
                events.append(event)

        task, _ = await cancelled_at(tick, reply)

        ends = [event for event in events if isinstance(event, ReplyEndEvent)]
        if events:
            assert (len(ends), isinstance(events[-1], Msg)) == (1, True), f"cancelled in turn {tick}"
        finished = bool(ends) and ends[0].finished_reason == "completed"
        outcomes["after" if applied(agent) else "before"] += 1
        await check(agent, before)

        await agent.reply(user("And now?"))

        await check(agent, before)
        assert "And now?" in text_of(agent.model.chats[-1].messages)
        assert all(orphans(request.messages) == [] for request in agent.model.chats)
        assert task.done()

    assert min(outcomes.values()) > 0


async def test_a_manual_compression_that_is_cancelled_in_any_turn_leaves_before_or_after():
    before = [f"its number is {number_of(f'old-{i}')}" for i in range(TURNS)]
    tick, outcomes = 0, []
    while not outcomes or outcomes[-1] != "finished":
        tick += 1
        agent = an_agent()
        task, _ = await cancelled_at(tick, agent.compress_context)

        outcomes.append("cancelled" if task.cancelled() else "finished")
        await check(agent, before)
        await agent.compress_context()
        assert len(applied(agent)) == 1
        await check(agent, before)

    assert outcomes.count("cancelled") > 5


async def test_a_stream_that_is_closed_in_the_middle_of_a_compression_stops_it():
    gate = asyncio.Event()

    async def never(messages):
        await gate.wait()
        return plain_summary()

    agent = an_agent()
    agent.model._summaries = never
    stream = agent.reply_stream(user("Go on."))
    async for event in stream:
        if getattr(event, "name", "") == "ctxkit.compression.started":
            break
    assert len(asyncio.all_tasks()) > 1

    await stream.aclose()
    agent.model._summaries = None
    await agent.reply(user("And now?"))

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert "And now?" in text_of(agent.state.context)
    assert len(applied(agent)) == 1


async def test_closing_the_middleware_stops_what_runs():
    gate = asyncio.Event()
    asked = asyncio.Event()

    async def never(messages):
        asked.set()
        await gate.wait()

    async with CompressionMiddleware() as middleware:
        agent = an_agent(middlewares=[middleware], config=ContextConfig(summary=SummaryConfig(timeout_s=1000)))
        agent.model._summaries = never
        running = asyncio.ensure_future(agent.reply(user("Go on.")))
        await asked.wait()
    reply = await running

    assert reply.finished_reason == "interrupted"
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert "Question 0:" in text_of(agent.state.context)


@pytest.mark.may_block("the host's workspace blocks")
@pytest.mark.parametrize("tick", range(1, 60, 7))
async def test_a_cancelled_compression_into_files_loses_nothing(tmp_path, tick):
    agent = an_agent(offloader=LocalWorkspace(workdir=str(tmp_path)))
    before = [f"its number is {number_of(f'old-{i}')}" for i in range(TURNS)]

    await cancelled_at(tick * 40, lambda: agent.reply(user("Go on.")))
    await agent.reply(user("And now?"))

    [log] = (tmp_path / "sessions").glob("*/context.jsonl")
    everything = log.read_text() + text_of(agent.state.context)
    assert [text for text in before if text not in everything] == []
    assert orphans(agent.state.context) == []
