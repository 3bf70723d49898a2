"""R5: no id, whatever it looks like, reaches outside its store, and no two ids share anything."""

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from agentscope.message import Msg, TextBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, SessionMiddleware
from ctxkit.errors import CtxkitError, StoreWriteError
from ctxkit.host._codec import HostCodec
from ctxkit.host.workspace import LocalWorkspace
from ctxkit.offload import BLOB, FileStore, MemoryStore, Recall, Record, StoreOffloader, fsname, result_name
from ctxkit.sessions import MemorySessionStore, SessionLocks, SqliteSessionStore, TranscriptSessionStore
from ctxkit.testing import ScriptedModel
from tests.host.agents import make_agent, user
from tests.unit.offload.fakes import FourCharRuler

from .hostile_ids import CHOSEN, NUMBER, Surroundings, hostile_ids

pytestmark = [pytest.mark.crash, pytest.mark.row("X17", "A8")]


@pytest.fixture
def place(quick) -> Surroundings:
    return Surroundings(quick)


@pytest.fixture
def ids(volume) -> Sequence[str]:
    """All that were chosen, and as many others as there is time for."""
    rest = [one for one in hostile_ids() if one not in set(CHOSEN)]
    return [*CHOSEN, *Random(7).sample(rest, volume(short=120, full=len(rest)))]


async def told(call: Awaitable[object]) -> None:
    """Make a call that may be refused, by an error of ctxkit's and nothing else."""
    try:
        await call
    except CtxkitError:
        return


def folded(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


def test_every_id_has_a_name_of_its_own_also_where_case_and_normal_form_are_folded():
    ids = hostile_ids()
    assert len(set(ids)) == len(ids) == NUMBER
    for name_of in (fsname, result_name):
        assert len({folded(name_of(one)) for one in ids}) == NUMBER


def body_of(number: int) -> str:
    return f'{{"id":"{number}","text":"word{number}"}}'


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def fill(store: FileStore | MemoryStore, ids: Sequence[str]) -> None:
    """Use every id in every method, and see that each session has its own and nothing else."""
    for number, one in enumerate(ids):
        data = b"%d" % number
        reference = await store.append(one, [Record(key=f"k{number}", body=body_of(number))])
        assert reference == store.reference(one)
        assert await store.put(one, result_name(one), data) == await asyncio.to_thread(
            store.reference, one, result_name(one), data
        )
        await store.put_chunks(one, "chunks.txt", chunks(data))
    for number, one in enumerate(ids):
        entries = [entry async for entry in store.list(one)]
        assert [entry.key for entry in entries if entry.kind != BLOB] == [f"k{number}"]
        blobs = [entry for entry in entries if entry.kind == BLOB]
        assert {entry.name for entry in blobs} == {result_name(one), "chunks.txt"}
        assert [await store.get(entry.reference) for entry in blobs] == [b"%d" % number] * 2
        found = [entry async for entry in store.search(one, f"word{number}")]
        assert [entry.key for entry in found] == [f"k{number}"]


async def hold_and_empty(store: FileStore | MemoryStore, ids: Sequence[str]) -> None:
    """Fence, lease and delete each session, and see that those that come after are still whole."""
    for number, one in enumerate(ids):
        owner = await store.fence(one, 5)
        await owner.append(one, [Record(key="fenced", body='{"id":"f"}')])
        lease = await store.lease(one, owner={"by": one[:50]}, ttl_s=60.0)
        await lease.release()
        await store.delete(one)
        assert [entry async for entry in store.list(one)] == []
        if number + 1 < len(ids):
            assert len([entry async for entry in store.list(ids[number + 1])]) == 3


async def misuse(store: FileStore | MemoryStore, ids: Sequence[str]) -> None:
    """Give ids where names of blobs, references and texts belong."""
    for one in ids:
        for call in (store.put("s", one, b"x"), store.put(None, one, b"x"), store.put_chunks("s", one, chunks(b"x"))):
            try:
                reference = await call
            except StoreWriteError:
                continue
            assert await store.get(reference) == b"x"
        for name in (one, f"{store.reference('s')}/{one}", f"{store.reference(None, 'x')[:-1]}{one}"):
            await told(store.get(name))
        await told(asyncio.to_thread(store.reference, "s", one, b"x"))
        async for entry in store.search("s", one):
            assert entry.reference


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_no_session_id_reaches_outside_a_store_or_into_another_session(place, ids, kind):
    async def use() -> None:
        store = FileStore(place.root, fsync="off") if kind == "files" else MemoryStore()
        try:
            await fill(store, ids)
            await misuse(store, ids)
            place.assert_untouched()
            await hold_and_empty(store, ids)
        finally:
            if isinstance(store, FileStore):
                await store.aclose()

    asyncio.run(use())
    place.assert_untouched()
    if kind == "files":
        assert {path.name for path in place.root.iterdir()} <= {"sessions", "data"}


STORES: dict[str, Callable[[Path], object]] = {
    "transcripts": TranscriptSessionStore,
    "sqlite": lambda root: SqliteSessionStore(root / "s.db"),
    "memory": lambda _: MemorySessionStore(),
}


@pytest.mark.parametrize("kind", STORES)
def test_no_session_id_reaches_outside_a_store_of_sessions(place, volume, kind):
    others = hostile_ids()
    ids = [*CHOSEN, *Random(8).sample(others[len(CHOSEN) * 4 :], volume(short=20, full=700))]
    ids = list(dict.fromkeys(ids))

    async def use() -> None:
        store = STORES[kind](place.root)
        try:
            for number, one in enumerate(ids):
                await store.save(one, {"session_id": one[:100], "summary": f"{number}", "context": []}, epoch=1)
            async with SessionLocks(timeout_s=0) as locks:
                for number, one in enumerate(ids):
                    loaded = await store.load(one)
                    assert loaded.state["summary"] == f"{number}"
                    path = store.lock_path(one)
                    assert path is None or Path(path).is_relative_to(place.root)
                    hold = await locks.take(one, owner=object(), path=path, note=one[:50])
                    await store.fence(one, 5)
                    await hold.release()
            assert sorted(row.session_id for row in [row async for row in store.list()]) == sorted(ids)
            place.assert_untouched()
            for number, one in enumerate(ids):
                await store.delete(one)
                assert await store.load(one) is None
                if number + 1 < len(ids):
                    assert await store.load(ids[number + 1]) is not None
        finally:
            await store.aclose()

    asyncio.run(use())
    place.assert_untouched()


@pytest.mark.may_block("the host's workspace blocks; the store has its own tests")
@pytest.mark.filterwarnings("ignore:AgentScope itself has compressed")
def test_no_id_reaches_outside_a_workspace_or_an_offloader(place, ids):
    ids = ids[:: max(1, len(ids) // 200)]

    async def use() -> None:
        workspace = LocalWorkspace(workdir=str(place.root))
        offloader = StoreOffloader(workspace.store, HostCodec())
        recall = Recall(workspace.store)
        for one in ids:
            message = Msg(name="u", role="user", content=[TextBlock(text="what was said")], id=one[:1000])
            result = ToolResultBlock(id=one[:1000], name="t", output="what was found", state="success")
            for target in (workspace, offloader):
                await target.offload_context(one, [message])
                await target.offload_tool_result(one, result)
            assert "what was" in await recall.search(one, "what was", limit_tokens=500, ruler=FourCharRuler())
            assert await recall.search("s", one, limit_tokens=500, ruler=FourCharRuler())
            assert await recall.read("s", one, limit_tokens=500, ruler=FourCharRuler())
            assert "untouched" not in await recall.read(one, "../keep", limit_tokens=500, ruler=FourCharRuler())
            recall.forget(one)
        place.assert_untouched()
        for one in ids:
            await workspace.purge_session(agent_id=one, session_id=one)
            assert [entry async for entry in workspace.store.list(one)] == []
        await workspace.store.aclose()

    asyncio.run(use())
    place.assert_untouched()


@pytest.mark.may_block("the host's agent blocks; the stores have their own tests")
def test_an_agent_of_a_hostile_session_works_and_stays_inside(place, volume):
    chosen = [one for one in CHOSEN if one][:: volume(short=12, full=2)]

    async def use() -> None:
        store = FileStore(place.root / "store")
        sessions = TranscriptSessionStore(place.root / "sessions")
        async with SessionMiddleware(sessions) as session, CompressionMiddleware() as compression:
            for one in chosen:
                agent = make_agent(
                    ScriptedModel(["first", "second"]),
                    offloader=StoreOffloader(store, HostCodec()),
                    middlewares=[session, compression],
                    state=AgentState(session_id=one),
                )
                await agent.reply(user("hello"))
                assert (await sessions.load(one)) is not None
        await sessions.aclose()
        await store.aclose()

    asyncio.run(use())
    place.assert_untouched()
