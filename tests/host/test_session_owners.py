"""One owner of a session at a time, and what becomes of one that loses it."""

import asyncio

import pytest
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import AssistantMsg
from agentscope.tool import FunctionTool

from ctxkit import (
    FileStore,
    HostCodec,
    MemoryStore,
    SessionMiddleware,
    StoreOffloader,
)
from ctxkit.errors import SessionLockedError
from ctxkit.sessions import Hold
from ctxkit.testing import call
from tests.host.agents import applied, events_of, fetch, fetches, text_of, told, user
from tests.host.session_agents import Gate, locks, parked, saved_state, scribe

pytestmark = pytest.mark.asyncio


@pytest.mark.row("O4")
async def test_a_second_agent_is_told_who_owns_the_session(store):
    gate = Gate()
    session = SessionMiddleware(store, locks=locks())
    first = scribe(session, [call("wait_for_it", topic="x"), "Done."], tools=[gate.tool()], name="first")
    running = asyncio.create_task(first.reply(user("Wait.")))
    await gate.reached.wait()

    second = scribe(session, ["Never said."], name="second")
    with pytest.raises(SessionLockedError, match="first") as refusal:
        await second.reply(user("Me too."))
    with pytest.raises(SessionLockedError):
        await session.attach(second)
    gate.open.set()
    await running

    assert refusal.value.holder["pid"] > 0
    assert second.state.context == []
    assert "Me too." not in text_of((await saved_state(store)).context)


@pytest.mark.row("O4", "O12")
async def test_a_second_agent_waits_and_goes_on_where_the_first_ended(store):
    gate = Gate()
    session = SessionMiddleware(store, locks=locks(timeout_s=10))
    first = scribe(session, [call("wait_for_it", topic="x"), "First is done."], tools=[gate.tool()])
    running = asyncio.create_task(first.reply(user("Wait.")))
    await gate.reached.wait()
    second = scribe(session, ["Second is done."])
    waiting = asyncio.create_task(second.reply(user("Me too.")))
    gate.open.set()
    await asyncio.gather(running, waiting)

    assert text_of(second.state.context).endswith("First is done.\nMe too.\nSecond is done.")


async def test_an_agent_goes_on_where_another_one_went_on_with_its_session(store):
    session = SessionMiddleware(store)
    first = scribe(session, ["One.", "Three."])
    await first.reply(user("Say one."))
    await first.observe(AssistantMsg(name="colleague", content="By the way."))
    await scribe(session, ["Two."]).reply(user("Say two."))
    state, context = first.state, first.state.context

    events = await events_of(first.reply_stream(user("Say three.")))

    assert text_of(first.state.context).split("\n") == [
        *("Say one.", "One.", "Say two.", "Two.", "By the way.", "Say three.", "Three.")
    ]
    assert told(events) == ["session.restored"]
    assert first.state is state
    assert first.state.context is not context


async def test_nothing_is_loaded_again_where_nobody_else_had_the_session(store):
    loads = []
    load = store.load

    async def counted(session_id):
        loads.append(session_id)
        return await load(session_id)

    store.load = counted
    session = SessionMiddleware(store)
    agent = scribe(session, ["One.", "Two.", "Three."])
    for number in range(3):
        await agent.reply(user(f"Say {number}."))

    assert loads == ["s-1"]


@pytest.mark.row("O4")
async def test_an_owner_that_lost_its_session_writes_neither_state_nor_records(store, tmp_path):
    gate = Gate()
    offload = FileStore(str(tmp_path / "workspace"))
    session = SessionMiddleware(store, locks=locks(max_hold_s=0.05, watchdog_s=0.02))
    script = [call("wait_for_it", topic="x"), *fetches(30), "First is done."]
    first = scribe(
        session,
        script,
        tools=[gate.tool(), fetch],
        window=8000,
        offloader=StoreOffloader(offload, HostCodec()),
    )
    stream = first.reply_stream(user("Wait."))
    async for event in stream:
        if event.type == "MODEL_CALL_END":
            break  # nobody asks for the next event: the reply gives no sign of life
    other = SessionMiddleware(store, locks=locks(timeout_s=10))
    second = scribe(other, ["Second was here."], offloader=StoreOffloader(offload, HostCodec()))
    await second.reply(user("Take over."))
    gate.open.set()
    events = [event async for event in stream]

    assert "session.lost" in told(events)
    assert events[-1].type == "REPLY_END"
    assert "Second was here." in text_of((await saved_state(store)).context)
    assert "First is done." not in text_of((await saved_state(store)).context)
    assert [entry async for entry in offload.list("s-1")] == []
    assert applied(first) == []


@pytest.mark.row("O4")
async def test_the_result_of_a_call_that_a_person_allowed_is_stored_under_the_number_of_its_owner(store):
    offload, later = MemoryStore(), []

    async def transfer(amount: int) -> str:
        """Transfer money.

        Args:
            amount (int): How much.
        """
        later.append(await offload.fence("s-1", 1 << 60))  # somebody has taken the session over meanwhile
        return "A long receipt. " * 20_000

    session = SessionMiddleware(store)
    _, events = await parked(session)
    (request,) = [event for event in events if isinstance(event, RequireUserConfirmEvent)]
    agent = scribe(session, ["Done."], tools=[FunctionTool(transfer)], offloader=StoreOffloader(offload, HostCodec()))
    yes = [ConfirmResult(confirmed=True, tool_call=asked) for asked in request.tool_calls]
    events = await events_of(agent.reply_stream(UserConfirmResultEvent(reply_id=request.reply_id, confirm_results=yes)))

    assert later
    assert "store.failed" in told(events)
    assert [entry async for entry in offload.list("s-1")] == []


@pytest.mark.row("O4")
async def test_a_reply_keeps_its_session_however_long_a_tool_takes(store, monkeypatch):
    gate, signs, now = Gate(), asyncio.Queue(), 0.0
    touch = Hold.touch
    monkeypatch.setattr(Hold, "touch", lambda hold: (touch(hold), signs.put_nowait("sign")))
    session = SessionMiddleware(store, locks=locks(max_hold_s=0.04, watchdog_s=0.005, clock=lambda: now))
    agent = scribe(session, [call("wait_for_it", topic="x"), "Done."], tools=[gate.tool()])
    running = asyncio.create_task(agent.reply(user("Wait.")))
    await gate.reached.wait()
    for _ in range(10):
        now += 0.03  # seconds, by the clock of the locks
        while not signs.empty():
            signs.get_nowait()
        await asyncio.wait_for(signs.get(), timeout=10)
    with pytest.raises(SessionLockedError):
        await scribe(SessionMiddleware(store, locks=locks()), ["No."]).reply(user("Me too."))
    gate.open.set()
    await running

    assert "Done." in text_of((await saved_state(store)).context)


async def test_one_agent_replies_to_one_request_at_a_time(store):
    gate = Gate()
    session = SessionMiddleware(store, locks=locks(timeout_s=10))
    agent = scribe(session, [call("wait_for_it", topic="x"), "One.", "Two."], tools=[gate.tool()])
    first = asyncio.create_task(agent.reply(user("First.")))
    await gate.reached.wait()
    second = asyncio.create_task(agent.reply(user("Second.")))
    gate.open.set()
    await asyncio.gather(first, second)

    assert text_of(agent.state.context).index("One.") < text_of(agent.state.context).index("Second.")
