"""What a SessionMiddleware does beside saving and restoring: upkeep, privacy, and not being in the way."""

import asyncio
import errno
import gc
import time
import weakref

import pytest
from agentscope.message import AssistantMsg, TextBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, ContextConfig, PrivacyConfig, SessionMiddleware, SummaryConfig
from ctxkit.errors import StoreReadError, StoreWriteError
from ctxkit.host._session_state import dump_state, load_state
from ctxkit.sessions import (
    Hold,
    MemorySessionStore,
    Retention,
    SessionLocks,
    SqliteSessionStore,
    TranscriptSessionStore,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, events_of, exchange, fetches, make_agent, memory_offloader, told, user, words
from tests.host.session_agents import plain, saved_state, scribe

pytestmark = pytest.mark.asyncio

DAY_S = 86_400.0
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


# Old sessions


class Clock:
    """Seconds since the epoch, as a test wants them."""

    def __init__(self) -> None:
        self.now = time.time() - 40 * DAY_S

    def __call__(self) -> float:
        return self.now


async def store_of_old_sessions(number: int) -> MemorySessionStore:
    """Return a store with so many sessions that were saved 40 days ago, and 25 of today."""
    clock = Clock()
    store = MemorySessionStore(clock=clock)
    state = AgentState().model_dump(mode="json")
    for i in range(number):
        await store.save(f"old-{i}", state)
    clock.now = time.time()
    for i in range(25):
        await store.save(f"new-{i}", state)
    return store


@pytest.mark.row("O2", "C8")
@pytest.mark.parametrize(("mode", "left"), [("warn", 5), ("enforce", 2)])
async def test_old_sessions_go_after_a_reply_or_are_reported(mode, left):
    store = await store_of_old_sessions(5)
    session = SessionMiddleware(store, retention=Retention(mode=mode))
    agent = scribe(session, ["One.", "Two."])
    await agent.reply(user("Say one."))
    await asyncio.gather(*session._tasks)
    events = await events_of(agent.reply_stream(user("Say two.")))

    assert len([row async for row in store.list() if row.session_id.startswith("old")]) == left
    (event,) = [event for event in events if getattr(event, "name", "") == "ctxkit.session.maintenance"]
    assert event.value["mode"] == mode
    assert sorted(event.value["removed"]) == ["old-0", "old-1", "old-2"]
    assert all("at most 10%" in event.value["delayed"][late] for late in ("old-3", "old-4"))


async def test_old_sessions_are_looked_after_at_most_once_an_hour_unless_asked(monkeypatch):
    store = await store_of_old_sessions(12)
    session = SessionMiddleware(store, retention=Retention(mode="enforce"))
    agent = scribe(session, ["One.", "Two.", "Three."])
    for said in ("one", "two", "three"):
        await agent.reply(user(f"Say {said}."))
    await asyncio.gather(*session._tasks)
    assert len([row async for row in store.list() if row.session_id.startswith("old")]) == 9

    report = await session.maintain()

    assert len(report.removed) == 3
    assert "s-1" not in report.removed


async def test_without_a_retention_nothing_is_looked_after():
    session = SessionMiddleware(await store_of_old_sessions(3))
    await scribe(session, ["One."]).reply(user("Say one."))

    assert await session.maintain() is None
    assert len([row async for row in session._keeping.store.list()]) == 29


async def test_upkeep_that_fails_costs_no_reply(caplog):
    class Blind(MemorySessionStore):
        def list(self):
            raise StoreReadError("EIO")

    session = SessionMiddleware(Blind(), retention=Retention())
    await scribe(session, ["One."]).reply(user("Say one."))
    await session.aclose()

    assert "old sessions could not be looked after" in caplog.text


# Privacy


@pytest.mark.row("X17")
@pytest.mark.parametrize("is_on", [True, False])
async def test_secrets_are_not_saved_unless_redaction_is_off(tmp_path, is_on):
    store = TranscriptSessionStore(tmp_path)
    session = SessionMiddleware(store)
    agent = make_agent(
        ScriptedModel([call("fetch", topic=SECRET, size=5), f"It is {SECRET}."]),
        middlewares=[session, CompressionMiddleware()],
        config=ContextConfig(privacy=PrivacyConfig(redact=is_on)),
        state=AgentState(session_id="s-1"),
    )
    await agent.reply(user(f"My token is {SECRET}."))
    await session.aclose()

    files = [path.read_text(encoding="utf-8") for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) >= 3
    assert any(SECRET in text for text in files) is not is_on
    assert SECRET in str(plain(agent))  # the live context is the model's own


# In nobody's way


def huge_state(megabytes: int) -> AgentState:
    """Return a state whose one long reply has so many megabytes in blocks of 20 kB."""
    text = words(4000)
    content = [block for i in range(megabytes * 25) for block in exchange(i, size=1)]
    for block in content:
        if isinstance(block, ToolResultBlock):
            block.output = [TextBlock(text=text), TextBlock(text=text)]
    return AgentState(session_id="s-1", context=[user("Begin."), AssistantMsg(name="scribe", content=content)])


async def longest_stall(work) -> float:
    """Return the longest time in seconds for which a piece of work kept others waiting."""
    longest, is_done = 0.0, False

    async def look() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not is_done:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    looking = asyncio.create_task(look())
    await work
    is_done = True
    await looking
    return longest


async def test_a_large_state_is_written_and_read_in_pieces():
    state = huge_state(4)

    async def there_and_back() -> None:
        dumped = await dump_state(state)
        loaded, damaged = await load_state(dumped)
        assert damaged == []
        assert loaded == state
        assert dumped == state.model_dump(mode="json")

    await there_and_back()
    dumped = await dump_state(state)
    assert min([await longest_stall(dump_state(state)) for _ in range(3)]) < 0.05
    assert min([await longest_stall(load_state(dumped)) for _ in range(3)]) < 0.05


async def test_what_comes_while_a_state_is_written_changes_nothing_of_it():
    state = huge_state(1)
    before = state.model_dump(mode="json")
    writing = asyncio.create_task(dump_state(state))
    await asyncio.sleep(0)
    state.context[-1].content.append(TextBlock(text="Too late."))
    state.context.append(user("Too late."))

    assert await writing == before


@pytest.mark.row("O11", "O4")
async def test_a_compression_may_hold_the_session_for_its_time_out_and_two_minutes(monkeypatch):
    limits = []
    monkeypatch.setattr(Hold, "extend", lambda _, seconds: limits.append(seconds))
    session = SessionMiddleware(MemorySessionStore())
    agent = scribe(
        session,
        [*fetches(30), "Done."],
        window=8000,
        config=ContextConfig(summary=SummaryConfig(timeout_s=60.0)),
        offloader=memory_offloader(),
    )

    await agent.reply(user("Look up thirty topics."))
    within = len(applied(agent))
    await agent.compress_context()

    assert within >= 2
    assert limits == [180.0] * (within + 1)


async def test_an_agent_is_forgotten_when_nobody_has_it_any_more():
    session = SessionMiddleware(MemorySessionStore())
    agent = scribe(session, ["One."])
    await agent.reply(user("Say one."))
    gone = weakref.ref(agent)
    del agent
    gc.collect()

    assert gone() is None
    assert len(session._agents) == 0


async def test_a_lock_that_cannot_be_written_costs_no_reply_and_nothing_is_saved_over(tmp_path):
    class Stuck(SessionLocks):
        is_stuck = False

        async def take(self, *args, **kwargs):
            if self.is_stuck:
                raise StoreWriteError("ENOSPC")
            return await super().take(*args, **kwargs)

    store, locks = SqliteSessionStore(tmp_path / "sessions.db"), Stuck()
    session = SessionMiddleware(store, locks=locks)
    await scribe(session, ["One."]).reply(user("Say one."))

    locks.is_stuck = True
    second = scribe(session, ["Two.", "Four."])
    events = await events_of(second.reply_stream(user("Say two.")))
    assert told(events)[:2] == ["session.save_failed", "session.restored"]
    assert [message.get_text_content() for message in second.state.context] == ["Say one.", "One.", "Say two.", "Two."]
    assert len((await saved_state(store)).context) == 2

    locks.is_stuck = False
    await scribe(session, ["Three."]).reply(user("Say three."))
    await second.reply(user("Say four."))
    said = [message.get_text_content() for message in (await saved_state(store)).context]
    assert said == ["Say one.", "One.", "Say three.", "Three.", "Say two.", "Two.", "Say four.", "Four."]
    await session.aclose()


async def test_locks_that_were_lost_with_their_files_lock_nobody_out(tmp_path):
    store = SqliteSessionStore(tmp_path / "sessions.db")
    async with SessionMiddleware(store) as session:
        await scribe(session, ["One."]).reply(user("Say one."))
        await store.fence("s-1", int(time.time() * 1000) + 3_600_000)  # by a machine whose clock is ahead
        second = scribe(session, ["Two."])
        events = await events_of(second.reply_stream(user("Say two.")))

        assert told(events) == ["session.restored"]
        assert len((await saved_state(store)).context) == 4


async def test_a_state_that_is_no_plain_json_is_not_saved_and_said_so():
    session = SessionMiddleware(MemorySessionStore())
    agent = scribe(session, ["One."])
    await session.attach(agent)
    agent.state.middle_context["mine"] = object()

    events = await events_of(agent.reply_stream(user("Say one.")))

    assert told(events) == ["session.save_failed"]
    with pytest.raises(StoreWriteError, match="middlewares"):
        await session.save(agent)


async def test_without_locks_a_session_is_saved_and_restored_all_the_same():
    session = SessionMiddleware(MemorySessionStore(), locks=None)
    await scribe(session, ["One."]).reply(user("Say one."))
    second = scribe(session, ["Two."])
    await second.reply(user("Say two."))

    assert len(second.state.context) == 4


async def test_a_full_disk_is_no_reason_to_stop(tmp_path):
    class Full(SqliteSessionStore):
        async def save(self, *args, **kwargs):
            raise StoreWriteError(errno.errorcode[errno.ENOSPC])

    async with SessionMiddleware(Full(tmp_path / "sessions.db")) as session:
        agent = scribe(session, ["One.", "Two."])
        for said in ("one", "two"):
            assert set(told(await events_of(agent.reply_stream(user(f"Say {said}."))))) == {"session.save_failed"}
