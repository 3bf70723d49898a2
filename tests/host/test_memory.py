"""A real agent's memory: what leaves its context is in the daily file, once, whatever comes between."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from agentscope.message import AssistantMsg, TextBlock, ThinkingBlock

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    LadderConfig,
    LocalWorkspace,
    MemoryConfig,
    MemoryMiddleware,
    MemoryStore,
    StoreWriteError,
    telemetry,
)
from ctxkit.memory import Flushed
from ctxkit.summary.extractive import MARK
from ctxkit.testing import ScriptedModel
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    summary_text,
    told,
    user,
    words,
)
from tests.host.memories import ENTRY, an_agent, diary, refused_once

pytestmark = pytest.mark.asyncio

# The host's own workspace reads files on the event loop.
BLOCKS = pytest.mark.may_block("the host's workspace blocks; memory has its own tests")


@BLOCKS
@pytest.mark.row("C4")
async def test_what_leaves_is_summarised_by_the_model_and_appended_to_the_daily_file(tmp_path):
    async with MemoryMiddleware() as memory:
        agent = an_agent(memory, offloader=LocalWorkspace(workdir=str(tmp_path)))
        await agent.reply(user("And now?"))
    [receipt] = applied(agent)
    text = diary(tmp_path)
    assert f"<!-- ctxkit:entry {receipt.plan_id} -->" in text
    assert "- Ticket AB-1234 is open." in text
    assert f"session {agent.state.session_id}\n" in text
    [request] = agent.model.memory_requests
    sent = "\n".join(block.text for message in request.messages for block in message.content)
    assert number_of("old-0") in sent
    assert "[DAILY]" in sent


@BLOCKS
@pytest.mark.row("C4")
async def test_where_the_model_fails_the_entry_is_extractive_and_marked_as_such(tmp_path):
    async with MemoryMiddleware() as memory:
        agent = an_agent(memory, offloader=LocalWorkspace(workdir=str(tmp_path)), memories=OSError("down"))
        await agent.reply(user("And now?"))
    assert "collected by code: no model could summarise)" in diary(tmp_path)
    assert MARK in diary(tmp_path)
    assert "Question 0: what of old-0?" in diary(tmp_path)


@pytest.mark.row("C5")
async def test_one_call_gives_the_entry_and_the_text_to_be_injected_and_no_reply_waits_for_it(tmp_path):
    told_of: list[Flushed] = []
    gate = asyncio.Event()

    async def slow(_: Any) -> str:
        await gate.wait()
        return ENTRY

    async with MemoryMiddleware(tmp_path, context_summary_callback=told_of.append) as memory:
        agent = an_agent(memory, memories=slow)
        await agent.reply(user("And now?"))
        assert told_of == []
        gate.set()
    [entry] = told_of
    assert (entry.id, entry.is_extractive) == (applied(agent)[0].plan_id, False)
    assert entry.memory == "Old topics are done; AB-1234 is next."
    assert entry.daily in diary(tmp_path)
    assert len(agent.model.memory_requests) == 1


@pytest.mark.row("C5")
@pytest.mark.parametrize("shape", ["claude", "generator", "chunks", "awaitable"])
async def test_a_function_of_ones_own_may_write_and_answer_in_any_shape(tmp_path, shape):
    async def chunks():
        for piece in (ENTRY[:20], ENTRY[20:]):
            yield {"choices": [{"delta": {"content": piece}}]}

    async def later():
        return ENTRY

    shapes = {
        "claude": lambda _: {"role": "assistant", "content": [{"type": "text", "text": ENTRY}]},
        "generator": lambda _: iter([ENTRY[:20], ENTRY[20:]]),
        "chunks": lambda _: chunks(),
        "awaitable": lambda _: later(),
    }
    async with MemoryMiddleware(tmp_path, model=shapes[shape]) as memory:
        agent = an_agent(memory)
        await agent.reply(user("And now?"))
    assert "- Ticket AB-1234 is open." in diary(tmp_path)
    assert "collected by code" not in diary(tmp_path)
    assert agent.model.memory_requests == []


@BLOCKS
@pytest.mark.row("C4")
async def test_what_a_closed_process_left_unwritten_is_written_once_at_the_next_start(tmp_path):
    async def never(_: Any) -> str:
        await asyncio.Event().wait()
        return ENTRY

    impatient = MemoryConfig(close_timeout_s=0)
    workspace = LocalWorkspace(workdir=str(tmp_path))
    async with MemoryMiddleware(config=impatient) as memory:
        agent = an_agent(memory, offloader=workspace, memories=never)
        await agent.reply(user("And now?"))
    assert not (tmp_path / "memory").exists()
    for _ in range(2):
        async with MemoryMiddleware() as memory:
            model = ScriptedModel(["Hello."], memories=ENTRY)
            again = make_agent(
                model,
                offloader=LocalWorkspace(workdir=str(tmp_path)),
                middlewares=[CompressionMiddleware(), memory],
                state=agent.state,
            )
            await again.reply(user("Hi."))
    assert diary(tmp_path).count("- Ticket AB-1234 is open.") == 1
    assert f"<!-- ctxkit:entry {applied(agent)[0].plan_id} -->" in diary(tmp_path)


@pytest.mark.row("C4")
async def test_a_memory_that_fails_stops_no_reply_and_is_told(tmp_path, caplog):
    (tmp_path / "memory").write_text("a file where the folder should be")
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory, ["One.", *fetches(1), "Two."])
        events = await events_of(agent.reply_stream(user("And now?")))
        await memory._tasks.finish(10)
        (tmp_path / "memory").unlink()
        events += await events_of(agent.reply_stream(user("And then?")))
    assert diary(tmp_path).count(f"<!-- ctxkit:entry {applied(agent)[0].plan_id} -->") == 1
    assert "memory.failed" in told(events)
    assert "could not be appended" in caplog.text
    assert len(applied(agent)) >= 1


class Slow(MemoryStore):
    """A store that takes nothing into a memory until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def append(self, session_id: str, records: Any) -> str:
        if session_id == "ctxkit-memory":
            self.begun.set()
            await self.gate.wait()
        return await super().append(session_id, records)


@pytest.mark.row("C4")
async def test_a_reply_that_is_cancelled_while_what_left_is_noted_loses_nothing():
    store = Slow()
    async with MemoryMiddleware(store=store) as memory:
        agent = an_agent(memory)
        task = asyncio.create_task(agent.reply(user("And now?")))
        await store.begun.wait()
        task.cancel()
        await asyncio.wait([task])
        store.gate.set()
    assert [entry.kind async for entry in store.list("ctxkit-memory")][-3:] == ["leaving", "memory", "done"]


async def test_no_reply_waits_longer_than_its_time_out_for_a_store_that_hangs():
    store = Slow()
    async with MemoryMiddleware(store=store) as memory:
        agent = an_agent(memory, settings={"offload": {"timeout_s": 0.05}})
        answer = await agent.reply(user("And now?"))
        assert answer.get_text_content() == "Done."
        store.gate.set()
    assert "done" in [entry.kind async for entry in store.list("ctxkit-memory")]


@pytest.mark.row("C7")
async def test_when_a_provider_refuses_a_request_the_whole_context_is_written_to_memory_and_nobody_waits(tmp_path):
    gate = asyncio.Event()

    async def slow(_: str) -> str:
        await gate.wait()
        return ENTRY

    config = MemoryConfig(on_overflow=True)
    async with MemoryMiddleware(tmp_path, config=config, model=slow) as memory:
        model = refused_once(["Done."])
        agent = make_agent(model, middlewares=[CompressionMiddleware(), memory])
        agent.state.context.extend(history(20, size=350))
        before = len(agent.state.context)
        answer = await agent.reply(user("And now?"))
        assert answer.get_text_content() == "Done."
        assert [request.refused for request in model.chats] == [True, False]
        assert len(agent.state.context) == before + 2
        gate.set()
    assert diary(tmp_path).count("- Ticket AB-1234 is open.") == 1


@pytest.mark.row("C7")
async def test_what_was_written_at_an_overflow_is_not_written_again_when_it_leaves(tmp_path):
    config = MemoryConfig(on_overflow=True)
    told_of: list[Flushed] = []
    asked: list[str] = []

    def note(prompt: str) -> str:
        asked.append(prompt)
        return ENTRY

    async with MemoryMiddleware(tmp_path, config=config, model=note, context_summary_callback=told_of.append) as memory:
        compression = CompressionMiddleware()
        agent = make_agent(refused_once(["Done."]), middlewares=[compression, memory])
        agent.state.context.extend(history(20, size=350))
        await agent.reply(user("And now?"))
        await memory._tasks.finish(10)
        assert len(told_of) == 1
        assert "Question 0: what of old-0?" in "".join(asked)
        await compression.compact(agent)
        await memory._tasks.finish(10)
    assert len(told_of) == 1


@pytest.mark.row("C7")
async def test_without_on_overflow_a_refused_request_writes_nothing(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent = make_agent(refused_once(["Done."]), middlewares=[CompressionMiddleware(), memory])
        agent.state.context.extend(history(20, size=350))
        await agent.reply(user("And now?"))
    assert not (tmp_path / "memory").exists()


class Flaky(MemoryStore):
    """A store that cannot be written while it is down."""

    is_down = True

    async def append(self, session_id: str, records: Any) -> str:
        if self.is_down:
            msg = "the database is away"
            raise StoreWriteError(msg)
        return await super().append(session_id, records)


@pytest.mark.row("C4")
async def test_what_could_not_be_noted_is_noted_and_written_at_the_next_reply(caplog):
    store = Flaky()
    async with MemoryMiddleware(store=store) as memory:
        agent = an_agent(memory, ["One.", "Two."])
        await agent.reply(user("And now?"))
        await memory._tasks.finish(10)
        assert "the database is away" in caplog.text
        store.is_down = False
        await agent.reply(user("And then?"))
    kinds = [entry.kind async for entry in store.list("ctxkit-memory")]
    assert (kinds.count("memory"), kinds.count("done")) == (1, 1)


async def test_an_entry_is_told_in_the_stream_with_what_it_cost(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory, ["One.", "Two."])
        await agent.reply(user("And now?"))
        await memory._tasks.finish(10)
        events = await events_of(agent.reply_stream(user("And then?")))
    [event] = [event for event in events if getattr(event, "name", "") == telemetry.MEMORY_WRITTEN]
    assert event.value["plan_id"] == applied(agent)[0].plan_id
    assert event.value["input_tokens"] > 0
    assert not event.value["is_extractive"]


async def test_a_compression_by_hand_is_written_too_and_flush_can_be_turned_off(tmp_path):
    for wanted in (True, False):
        root = tmp_path / str(wanted)
        async with MemoryMiddleware(root, config=MemoryConfig(flush=wanted)) as memory:
            compression = CompressionMiddleware()
            agent = make_agent(
                ScriptedModel(["Hello."], context_size=8000, memories=ENTRY), middlewares=[memory, compression]
            )
            agent.state.context.extend(history(14, size=350))
            await compression.compact(agent)
        assert (root / "memory").exists() == wanted


async def test_messages_in_the_agents_own_store_are_not_stored_twice():
    offloader = memory_offloader()
    async with MemoryMiddleware() as memory:
        agent = an_agent(memory, offloader=offloader)
        await agent.reply(user("And now?"))
    kinds = [entry.kind async for entry in offloader.store.list("ctxkit-memory")]
    assert kinds == ["leaving", "memory", "done"]


async def test_without_a_store_or_a_directory_memory_lasts_as_long_as_the_process_and_says_so(caplog):
    async with MemoryMiddleware() as memory:
        agent = an_agent(memory)
        await agent.reply(user("And now?"))
        await memory._tasks.finish(10)
        assert "as long as this process" in caplog.text
        assert await (await memory.memory_of(agent)).search("AB-1234")


@BLOCKS
async def test_a_store_without_a_directory_keeps_memory_without_files(tmp_path):
    store = MemoryStore()
    async with MemoryMiddleware(store=store, name="ada") as memory:
        agent = an_agent(memory, offloader=LocalWorkspace(workdir=str(tmp_path)))
        await agent.reply(user("And now?"))
    assert not (tmp_path / "memory").exists()
    assert "memory" in [entry.kind async for entry in store.list("ada")]


async def test_secrets_reach_neither_the_file_nor_the_store(tmp_path):
    token = "ghp_" + "a1B2" * 9
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory, memories=f"[DAILY]\n- The token is {token}.\n[MEMORY]\n{token}")
        agent.state.context[0].content.append(TextBlock(text=f"My token is {token}."))
        await agent.reply(user("And now?"))
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"REDACTED" in everything
    assert token.encode() not in everything


async def test_a_summary_is_still_made_beside_memory(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory)
        await agent.reply(user("And now?"))
    assert "Next steps as of summary" in summary_text(agent)


async def test_two_middlewares_in_the_wrong_order_work_too(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel(["Done."], context_size=8000, memories=ENTRY)
        agent = make_agent(
            model, config=ContextConfig(trigger_ratio=0.5), middlewares=[memory, CompressionMiddleware()]
        )
        agent.state.context.extend(history(14, size=350))
        await agent.reply(user("And now?"))
    assert "AB-1234" in diary(tmp_path)


async def test_thinking_that_leaves_alone_is_not_written_to_memory(tmp_path):
    agent = None
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel(["Done."], context_size=14_000, memories=ENTRY)
        config = ContextConfig(trigger_ratio=0.3, ladder=LadderConfig(rungs=("clear_thinking",)))
        agent = make_agent(model, config=config, middlewares=[CompressionMiddleware(), memory])
        for number in range(12):
            said = [ThinkingBlock(thinking=words(500, seed=str(number))), TextBlock(text="Yes.")]
            agent.state.context += [user(f"Question {number}?"), AssistantMsg(name="scribe", content=said)]
        await agent.reply(user("And now?"))
    assert applied(agent)
    assert {rule for receipt in applied(agent) for rule in receipt.rules} == {"clear_thinking"}
    assert not (tmp_path / "memory").exists()
