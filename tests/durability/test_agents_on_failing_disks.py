"""R3, R4: real agents whose disk fails: each reply ends well, and nothing has left a context that is not stored."""

import asyncio
import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agentscope.agent import Agent, InjectionConfig
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, ContextConfig, FileStore, OffloadConfig, SessionMiddleware, StoreOffloader
from ctxkit.errors import SessionLockedError
from ctxkit.host._codec import HostCodec
from ctxkit.offload import BLOB
from ctxkit.sessions import SessionLocks, TranscriptSessionStore
from ctxkit.testing import ScriptedModel
from tests.host.agents import applied, events_of, fetches, make_agent, number_of, orphans, text_of, told, user

from .faulty_calls import FAILURES, FAULTS, HANG, FaultyCalls, open_descriptors

TURNS = 3
STEPS = 6
WINDOW = 8000
CALLS = 1000
"""About so many calls are made for one agent."""
STRIDE = 53
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("X1"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lets the system calls of Linux fail"),
]


def topics() -> list[str]:
    return [f"turn{turn}-{step}" for turn in range(TURNS) for step in range(STEPS)]


def script() -> list[Any]:
    return [one for turn in range(TURNS) for one in (*fetches(STEPS, prefix=f"turn{turn}"), f"Answer {turn}.")]


def an_agent(root: Path, store: FileStore, session: SessionMiddleware, **settings: Any) -> Agent:
    return make_agent(
        ScriptedModel(script(), context_size=WINDOW, enforce="cl100k"),
        config=ContextConfig(offload=OffloadConfig(timeout_s=settings.pop("timeout_s", 10.0))),
        offloader=StoreOffloader(store, HostCodec()),
        middlewares=[session, CompressionMiddleware()],
        state=AgentState(session_id="s"),
        injection_config=InjectionConfig(inject_runtime_state=False),
        **settings,
    )


async def stored_text(store: FileStore) -> str:
    """Return all that is stored of the session, records and blobs."""
    entries = [entry async for entry in store.list("s")]
    keys = [entry.key for entry in entries if entry.kind != BLOB]
    assert len(keys) == len(set(keys))
    return "\n".join([(await store.get(one.reference, one.offset, one.size)).decode() for one in entries])


async def look(agent: Agent, root: Path) -> None:
    """Whatever the user, the tools and the agent have said is in the context or can be read by a fresh store."""
    fresh = FileStore(root / "store")
    there = text_of(agent.state.context) + await stored_text(fresh)
    await fresh.aclose()
    said = [*(f"Question {turn}." for turn in range(TURNS)), *(f"Answer {turn}." for turn in range(TURNS))]
    assert [one for one in (*said, *map(number_of, topics())) if one not in there] == []
    assert orphans(agent.state.context) == []


async def run(root: Path, calls: FaultyCalls, *, save_s: float = 30.0, **settings: Any) -> list[str]:
    """Let an agent reply to all questions on a disk that fails, look, and return the names of ctxkit's events."""
    store = FileStore(root / "store", lock_timeout_s=5.0)
    sessions = TranscriptSessionStore(root / "sessions")
    try:
        async with asyncio.timeout(PATIENCE_S), SessionMiddleware(sessions, timeout_s=save_s) as session:
            agent = an_agent(root, store, session, **settings)
            names: list[str] = []
            for turn in range(TURNS):
                events = await events_of(agent.reply_stream(user(f"Question {turn}.")))
                assert events[-1].type == "REPLY_END"
                names += told(events)
            assert agent.state.context[-1].get_text_content() == f"Answer {TURNS - 1}."
            calls.stop()
            await look(agent, root)
            await session.save(agent)
            saved = await sessions.load("s")
            assert saved is not None
            assert AgentState.model_validate(saved.state).context == agent.state.context
            return [*names, *(["applied"] if applied(agent) else [])]
    finally:
        calls.stop()
        await store.aclose()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    there = Path("/dev/shm")
    with TemporaryDirectory(dir=there if there.is_dir() else tmp_path) as root:
        yield Path(root)


@pytest.fixture
def calls(monkeypatch) -> FaultyCalls:
    return FaultyCalls(monkeypatch)


def test_an_agent_compresses_and_stores_where_nothing_fails(memory, calls):
    names = asyncio.run(run(memory, calls))
    assert "applied" in names
    assert {"store.failed", "session.save_failed"}.isdisjoint(names)


@pytest.mark.parametrize("failure", FAILURES)
def test_whichever_call_fails_the_reply_ends_well_and_nothing_has_left_that_is_not_stored(
    memory, calls, volume, figures, failure
):
    fault, for_ever = failure
    gc.collect()  # what other tests have left open is closed now, not amid the faults
    chance, before = Random(f"agent {fault} {for_ever}"), open_descriptors()
    first, stride = chance.randint(1, volume(short=CALLS, full=STRIDE)), volume(short=100 * CALLS, full=STRIDE)
    for runs in count(1):
        number = first + (runs - 1) * stride
        calls.fail(number, FAULTS[fault], for_ever=for_ever)
        asyncio.run(run(memory / f"{number}", calls))
        assert open_descriptors() == before, f"call {number} failed: {calls.failed[:1]}"
        if not calls.failed or stride > CALLS:
            break
    figures(f"agents whose n-th system call fails, {fault}, for ever: {for_ever}: {runs} agents of {TURNS} replies")


def test_a_disk_that_hangs_holds_no_reply_up_for_long_and_nothing_has_left_that_is_not_stored(memory, calls):
    calls.fail_all("fdatasync", fault=HANG, after=20)
    names = asyncio.run(run(memory, calls, save_s=0.3, timeout_s=0.3))
    assert {"store.failed", "session.save_failed"} & set(names)


@pytest.mark.parametrize("fault", ["ENOSPC", "EROFS"])
def test_an_agent_whose_disk_is_full_or_read_only_all_the_time_answers_and_loses_nothing(memory, calls, fault):
    calls.fail_all("write", "pwrite", "mkdir", "link", "replace", fault=FAULTS[fault])
    names = asyncio.run(run(memory, calls))
    assert {"store.failed", "session.save_failed"} <= set(names)
    assert "applied" not in names


@pytest.mark.asyncio
@pytest.mark.may_block("two agents meet on one loop; the stores are watched elsewhere")
async def test_two_agents_on_one_session_take_turns_or_are_told_and_lose_nothing(tmp_path):
    sessions = TranscriptSessionStore(tmp_path / "sessions")
    store = FileStore(tmp_path / "store")

    async def reply(number: int, session: SessionMiddleware) -> bool:
        agent = make_agent(
            ScriptedModel(after=f"Answer {number}.", context_size=WINDOW, enforce="cl100k"),
            offloader=StoreOffloader(store, HostCodec()),
            middlewares=[session, CompressionMiddleware()],
            state=AgentState(session_id="s"),
            injection_config=InjectionConfig(inject_runtime_state=False),
        )
        try:
            await agent.reply(user(f"Question {number}."))
        except SessionLockedError:
            return False
        return True

    async with (
        SessionMiddleware(sessions, locks=SessionLocks(timeout_s=60.0)) as patient,
        SessionMiddleware(sessions, locks=SessionLocks(timeout_s=0.0)) as impatient,
    ):
        replied = await asyncio.gather(*(reply(number, (patient, impatient)[number % 2]) for number in range(16)))

    saved = await sessions.load("s")
    assert saved is not None
    state = AgentState.model_validate(saved.state)
    said = text_of(state.context).split("\n") + (await stored_text(store)).split("\n")
    for number, has_replied in enumerate(replied):
        assert said.count(f"Question {number}.") == said.count(f"Answer {number}.") == has_replied
    assert all(replied[::2])
    await sessions.aclose()
    await store.aclose()
