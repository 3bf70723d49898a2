"""A user's own code before and after each compression, through a real agent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from agentscope.agent import Agent

from ctxkit import AfterCompression, BeforeCompression, ContextConfig, HooksConfig, StoreWriteError
from ctxkit.testing import ScriptedModel
from tests.host.agents import applied, events_of, fetches, history, make_agent, memory_offloader, receipts, told, user

pytestmark = [pytest.mark.asyncio, pytest.mark.row("O13")]


class Diary:
    """Takes down what hooks were told, and what the store held and the model had been asked by then."""

    def __init__(self) -> None:
        self.records: list[BeforeCompression | AfterCompression] = []
        self.requests: list[int] = []
        self.stored: list[int] = []
        self.agent: Agent | None = None

    def write(self, record: BeforeCompression | AfterCompression) -> None:
        self.records.append(record)

    async def look(self, record: BeforeCompression | AfterCompression) -> None:
        """Write as a coroutine function does."""
        await asyncio.sleep(0)
        self.write(record)
        assert self.agent is not None
        self.requests.append(len(self.agent.model.requests))
        self.stored.append(len([e async for e in self.agent.offloader.store.list(self.agent.state.session_id)]))


def agent_with(diary: Diary, *, before: Any = (), after: Any = (), script: Any = ("Done.",), **settings: Any) -> Agent:
    hooks = HooksConfig(before_compression=before, after_compression=after)
    model = ScriptedModel(list(script), context_size=8_000)
    config = ContextConfig(trigger_ratio=0.5, hooks=hooks, **settings)
    diary.agent = make_agent(model, config=config, offloader=memory_offloader())
    return diary.agent


async def test_hooks_are_told_of_each_compression_in_frozen_records():
    diary = Diary()
    agent = agent_with(diary, before=diary.look, after=[diary.write], script=[*fetches(30), "Done."])
    await agent.reply(user("Fetch thirty."))
    kinds = [type(record) for record in diary.records]
    assert kinds == [BeforeCompression, AfterCompression] * len(applied(agent))
    assert len(kinds) > 2
    for before, after in zip(diary.records[::2], diary.records[1::2], strict=True):
        assert isinstance(before, BeforeCompression)
        assert isinstance(after, AfterCompression)
        assert after.receipt in applied(agent)
        assert before.plan.id == after.receipt.plan_id
        assert before.plan.edits
        assert before.tokens_before == after.tokens_before == after.receipt.tokens_before
        assert after.tokens_after < before.plan.tokens_before
        assert (before.session_id, before.agent) == (agent.state.session_id, "scribe")
        assert (after.session_id, after.agent) == (agent.state.session_id, "scribe")
        with pytest.raises(FrozenInstanceError):
            after.tokens_after = 0  # type: ignore[misc]  # what the test is about


async def test_the_first_hook_comes_before_anything_is_stored_or_asked():
    diary = Diary()
    agent = agent_with(diary, before=diary.look, after=diary.look)
    agent.state.context.extend(history(14, size=350))
    await agent.reply(user("And now?"))
    assert (diary.requests[0], diary.stored[0]) == (0, 0)
    assert diary.stored[1] > 0


async def test_hooks_count_the_messages_before_and_after():
    diary = Diary()
    agent = agent_with(diary, before=diary.write, after=diary.write)
    agent.state.context.extend(history(14, size=350))
    await agent.compress_context()
    before, after = diary.records
    assert before.messages_before == after.messages_before == 28
    assert after.messages_after == len(agent.state.context)


async def test_no_hook_is_called_where_nothing_is_done():
    diary = Diary()
    agent = agent_with(diary, before=diary.write, after=diary.write)
    await agent.reply(user("Hello."))
    await agent.compress_context()
    assert diary.records == []


async def test_what_a_hook_raises_is_told_and_stops_neither_the_compression_nor_the_other_hooks(caplog):
    def broken(record: BeforeCompression | AfterCompression) -> None:
        raise RuntimeError("out of ink")

    diary = Diary()
    agent = agent_with(diary, before=[broken, diary.write], after=[broken, diary.write])
    agent.state.context.extend(history(14, size=350))
    with caplog.at_level(logging.ERROR, logger="ctxkit"):
        events = await events_of(agent.reply_stream(user("And now?")))
    assert [type(record) for record in diary.records] == [BeforeCompression, AfterCompression]
    assert len(applied(agent)) == 1
    failed = [event.value for event in events if getattr(event, "name", "") == "ctxkit.hook.failed"]
    assert [value["problem"] for value in failed] == ["RuntimeError: out of ink"] * 2
    assert all("broken" in value["hook"] for value in failed)
    assert told(events).count("compression.done") == 1
    assert "out of ink" in caplog.text


async def test_a_compression_that_fails_is_told_to_the_hook_after_it():
    diary = Diary()
    agent = agent_with(diary, before=diary.write, after=diary.write)
    agent.state.context.extend(history(14, size=350))

    async def down(*_: Any, **__: Any) -> str:
        raise OSError("the disk is gone")

    agent.offloader.store.append = down
    agent.offloader.store.put = down
    with pytest.raises(StoreWriteError, match="the disk is gone"):
        await agent.compress_context()
    assert [type(record) for record in diary.records] == [BeforeCompression, AfterCompression]
    (_, after) = diary.records
    assert after.receipt.outcome == "failed"
    assert after.receipt == receipts(agent)[-1]
    assert after.tokens_after == after.tokens_before
    assert after.messages_after == after.messages_before


async def test_a_cancelled_hook_cancels_the_reply():
    reached = asyncio.Event()

    async def slow(record: BeforeCompression) -> None:
        reached.set()
        await asyncio.Event().wait()

    diary = Diary()
    agent = agent_with(diary, before=slow, after=diary.write)
    agent.state.context.extend(context := history(14, size=350))
    task = asyncio.ensure_future(agent.reply(user("And now?")))
    await reached.wait()
    task.cancel()
    await asyncio.wait([task])
    assert diary.records == []
    assert agent.state.context[: len(context)] == context
