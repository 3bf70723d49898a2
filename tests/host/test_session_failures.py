"""Whatever fails while sessions are saved and restored: the reply goes on, and nothing that was saved is lost."""

import asyncio

import pytest
from agentscope.message import AssistantMsg, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import (
    ContextEvent,
    HostCodec,
    MemoryStore,
    SessionMiddleware,
    StoreOffloader,
)
from ctxkit.errors import NewerFormatError, StoreReadError, StoreWriteError
from tests.host.agents import events_of, memory_offloader, text_of, told, user
from tests.host.session_agents import saved_state, scribe

pytestmark = pytest.mark.asyncio


async def test_a_session_that_cannot_be_saved_costs_no_reply(store, caplog):
    async def full(*args, **kwargs):
        raise StoreWriteError("the disk is full")

    save, store.save = store.save, full
    session = SessionMiddleware(store)
    agent = scribe(session, ["One.", "Two."])

    events = await events_of(agent.reply_stream(user("Say one.")))
    assert told(events) == ["session.save_failed", "session.save_failed"]  # opened, and at the end
    assert "the disk is full" in events[-1 - told_behind(events)].value["problem"]

    store.save = save
    events = await events_of(agent.reply_stream(user("Say two.")))
    assert told(events) == []
    assert text_of((await saved_state(store)).context) == "Say one.\nOne.\nSay two.\nTwo."


def told_behind(events) -> int:
    """Return how many events come behind the last one of ctxkit's."""
    return next(i for i, event in enumerate(reversed(events)) if isinstance(event, ContextEvent))


async def test_a_store_that_hangs_holds_no_reply_up(store):
    never = asyncio.Event()

    async def hang(*args, **kwargs):
        await never.wait()

    store.save = hang
    session = SessionMiddleware(store, timeout_s=0.05)

    events = await events_of(scribe(session, ["One."]).reply_stream(user("Say one.")))

    assert set(told(events)) == {"session.save_failed"}


async def test_a_saved_session_whose_store_hangs_holds_no_reply_up_and_is_not_saved_over(store):
    never = asyncio.Event()

    async def hang(session_id):
        await never.wait()

    session = SessionMiddleware(store, timeout_s=0.2)
    await scribe(session, ["Noted."]).reply(user("My number is 4711."))
    load, store.load = store.load, hang

    events = await events_of(scribe(session, ["Hm."]).reply_stream(user("What is my number?")))

    store.load = load
    assert set(told(events)) == {"session.save_failed"}
    assert "took more than 0.2 s" in next(e.value["problem"] for e in events if isinstance(e, ContextEvent))
    assert text_of((await saved_state(store)).context) == "My number is 4711.\nNoted."


async def test_a_session_that_cannot_be_read_is_not_saved_over_and_found_again(store):
    session = SessionMiddleware(store)
    await scribe(session, ["Noted."]).reply(user("My number is 4711."))
    load = store.load

    async def broken(session_id):
        raise StoreReadError("EIO")

    store.load = broken
    second = scribe(session, ["Hm.", "It is 4711."])
    events = await events_of(second.reply_stream(user("What is my number?")))
    assert told(events) == ["session.save_failed"]

    store.load = load
    await second.reply(user("And now?"))
    assert text_of(second.state.context).split("\n") == [
        *("My number is 4711.", "Noted.", "What is my number?", "Hm.", "And now?", "It is 4711.")
    ]


class Full(MemoryStore):
    """A store without room until it is told that there is some."""

    is_full = True

    async def append(self, session_id, records):
        if self.is_full:
            msg = "the disk is full"
            raise StoreWriteError(msg)
        return await super().append(session_id, records)


async def test_a_saved_session_is_not_saved_over_while_what_it_alone_has_cannot_be_stored(store):
    session = SessionMiddleware(store)
    await scribe(session, ["Noted."]).reply(user("My number is 4711."))
    own = AgentState(session_id="s-1", context=[user("Hello."), AssistantMsg(name="scribe", content="Hello yourself.")])
    full = Full()
    agent = scribe(session, ["One.", "Two."], state=own, offloader=StoreOffloader(full, HostCodec()))

    events = await events_of(agent.reply_stream(user("Say one.")))
    assert told(events) == ["session.save_failed"]
    assert text_of((await saved_state(store)).context) == "My number is 4711.\nNoted."

    full.is_full = False
    await agent.reply(user("Say two."))
    stored = b"".join([await full.get(entry.reference) async for entry in full.list("s-1")])
    assert b"4711" in stored
    assert text_of((await saved_state(store)).context).startswith("Hello.\n")


async def test_the_summary_of_a_session_that_is_saved_over_is_stored(store):
    saved = AgentState(session_id="s-1", summary="Earlier: the number is 4711.")
    await store.save("s-1", saved.model_dump(mode="json"))
    own = AgentState(session_id="s-1", context=[user("Hello."), AssistantMsg(name="scribe", content="Hello yourself.")])
    offloader = memory_offloader()

    await scribe(SessionMiddleware(store), ["One."], state=own, offloader=offloader).reply(user("Say one."))

    stored = b"".join([await offloader.store.get(entry.reference) async for entry in offloader.store.list("s-1")])
    assert b"4711" in stored


async def test_what_repair_drops_stays_saved_while_it_cannot_be_stored(store):
    lonely = ToolResultBlock(id="c-1", name="fetch", output="Nobody asked.")
    state = AgentState(session_id="s-1", context=[user("Hello."), AssistantMsg(name="scribe", content=[lonely])])
    await store.save("s-1", state.model_dump(mode="json"))
    full = Full()
    session = SessionMiddleware(store)
    agent = scribe(session, ["One."], offloader=StoreOffloader(full, HostCodec()))

    with pytest.raises(StoreReadError, match="could not be stored"):
        await session.attach(agent)
    full.is_full = False
    restored = await session.attach(agent)

    assert restored.dropped == 1
    stored = b"".join([await full.get(entry.reference) async for entry in full.list("s-1")])
    assert b"Nobody asked." in stored


async def test_a_session_of_a_newer_format_is_refused(store):
    async def newer(session_id):
        raise NewerFormatError("format 9 is newer")

    await store.save("s-1", AgentState(session_id="s-1", summary="From the future.").model_dump(mode="json"))
    load, store.load = store.load, newer
    session = SessionMiddleware(store)
    agent = scribe(session, ["Never said."])

    with pytest.raises(NewerFormatError):
        await session.attach(agent)
    with pytest.raises(NewerFormatError):
        await agent.reply(user("Hello."))

    assert (await load("s-1")).state["summary"] == "From the future."


async def test_a_state_with_lone_surrogates_is_saved(store):
    session = SessionMiddleware(store)
    agent = scribe(session, ["Fine \ud800."])

    events = await events_of(agent.reply_stream(user("Odd \udfff text.")))

    assert told(events) == []
    assert "Odd" in text_of((await saved_state(store)).context)
