"""R5: links, pipes, sockets and devices where a store has its files: nothing is written outside, and nothing hangs."""

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ctxkit.errors import CtxkitError
from ctxkit.offload import FileLimits, FileStore, Record, lines
from ctxkit.sessions import SessionLocks, SessionStore, SqliteSessionStore, TranscriptSessionStore

from .hostile_ids import Surroundings

SESSION = "s"
STATE = {"session_id": SESSION, "summary": "", "context": [{"id": "m", "role": "assistant", "content": []}]}
LIMITS = FileLimits(segment_bytes=200, record_bytes=300)
PATIENCE_S = 30.0
"""Nothing that is tried here takes so long, unless it waits for a pipe."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("X17", "A8"),
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such files"),
]


@pytest.fixture
def place(quick) -> Surroundings:
    (quick / "deep/within").mkdir(parents=True)
    (quick / "deep/within/secret").write_text("untouched")
    return Surroundings(quick)


def _socket(path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may not be long
    try:
        listening.bind(path.name)
    finally:
        os.chdir(here)
        listening.close()


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make devices")


PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "link to a file": lambda path, outside: path.symlink_to(outside / "secret"),
    "dangling link": lambda path, outside: path.symlink_to(outside / "not-there-yet"),
    "link to a directory": lambda path, outside: path.symlink_to(outside / "victim", target_is_directory=True),
    "hard link": lambda path, outside: path.hardlink_to(outside / "secret"),
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: _socket(path),
    "device": lambda path, _: _device(path),
    "directory": lambda path, _: path.mkdir(),
}
STORE_NAMES = [
    "sessions", "data", "sessions/s", "sessions/s/context.jsonl", "sessions/s/context-0002.jsonl", "sessions/s/.lock",
    "sessions/s/.epoch", "sessions/s/.lease", "sessions/s/tool_result-a.txt", "sessions/s/.tmp-0",
    "sessions/s/context.record-{spill}.json", "data/shared.bin",
]  # fmt: skip
SESSION_NAMES = [
    "agents", "agents/main", "agents/main/sessions", *(
        f"agents/main/sessions/{name}"
        for name in (
            "s.jsonl", "s.state.json", "sessions.json", ".lock", ".fences", ".fences/s", ".fences/s/.epoch", ".fences/s/.lock",
            ".trash", "sessions.json.bak.1", "s.jsonl.bak", "s.jsonl.lock",
        )
    ),
]  # fmt: skip
BASE_NAMES = ["s.db", "s.db-wal", "s.db-shm", "s.db-journal", "s.db.locks", "s.db.locks/s.lock"]


def with_locks_behind_links(names: list[str]) -> list[object]:
    """Mark the directories on the way to a lock: its path alone does not say where the store's own part of it begins."""
    on_the_way = {"agents", "agents/main", "agents/main/sessions", "s.db.locks"}
    kind = "link to a directory"
    reason = "SessionLocks follows links on the way to a lock, and makes its small file there"
    return [
        pytest.param(
            name, one, marks=[pytest.mark.xfail(strict=True, reason=reason)] * (name in on_the_way and one == kind)
        )
        for name in names
        for one in PLANTS
    ]


def plant(place: Surroundings, name: str, kind: str) -> None:
    """Put something in the place of a file or directory of a store."""
    path = place.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    PLANTS[kind](path, place.base / "deep/within")


async def told(*calls: Awaitable[object]) -> None:
    """Make the calls, one after another; each is answered in time, or refused by an error of ctxkit's."""
    for call in calls:
        async with asyncio.timeout(PATIENCE_S):
            with suppress(CtxkitError):
                await call


async def use(store: FileStore) -> None:
    """Ask a store for all that it can do."""

    async def each(listing: object) -> None:
        async for entry in listing:  # type: ignore[attr-defined]  # list or search
            await told(store.get(entry.reference, entry.offset, entry.size))

    async def own() -> None:
        owner = await store.fence(SESSION, 7)
        await owner.append(SESSION, [Record(key="owner", body='{"id":"owner"}')])

    async def lease() -> None:
        held = await store.lease(SESSION, owner={"by": "test"}, ttl_s=60.0)
        await held.release()

    records = [Record(key=f"k{size}", body=f'{{"id":"{"x" * size}"}}') for size in (20, 250, 400)]
    await told(*(store.append(SESSION, [one]) for one in records), own(), lease())
    await told(store.put(SESSION, "tool_result-a.txt", b"content"), store.put(None, "shared.bin", b"content"))
    await told(each(store.list(SESSION)), each(store.search(SESSION, "x")), store.delete(SESSION))


async def use_sessions(store: SessionStore) -> None:
    async def rows() -> None:
        async for row in store.list():
            assert row.session_id

    async def hold() -> None:
        async with SessionLocks(timeout_s=0) as locks:
            held = await locks.take(SESSION, owner=object(), path=store.lock_path(SESSION))
            await held.release()

    for _ in range(2):
        await told(store.save(SESSION, STATE, epoch=1), store.load(SESSION), rows(), hold(), store.fence(SESSION, 2))
    if isinstance(store, TranscriptSessionStore):
        await told(store.rotate_index(max_bytes=0, keep=1))
    if isinstance(store, TranscriptSessionStore | SqliteSessionStore):
        await told(store.trash(SESSION), store.untrash(SESSION), store.trash(SESSION))
        await told(store.purge(SESSION, trashed_before=9e9))
    await told(store.save(SESSION, STATE, epoch=3), store.delete(SESSION))


def spill_name() -> str:
    return lines.spill_name(f'{{"id":"{"x" * 400}"}}'.encode())


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", STORE_NAMES)
def test_nothing_that_is_planted_leads_a_store_outside_or_holds_it_up(place, name, kind):
    plant(place, name.replace("context.record-{spill}.json", spill_name()), kind)

    async def run() -> None:
        store = FileStore(place.root, limits=LIMITS, lock_timeout_s=0.2)
        try:
            await use(store)
        finally:
            await store.aclose()

    asyncio.run(run())
    place.assert_untouched()


@pytest.mark.parametrize(("name", "kind"), with_locks_behind_links(SESSION_NAMES))
def test_nothing_that_is_planted_leads_transcripts_outside_or_holds_them_up(place, name, kind):
    plant(place, name, kind)

    async def run() -> None:
        store = TranscriptSessionStore(place.root, lock_timeout_s=0.2)
        try:
            await use_sessions(store)
        finally:
            await store.aclose()

    asyncio.run(run())
    place.assert_untouched()


@pytest.mark.parametrize(("name", "kind"), with_locks_behind_links(BASE_NAMES))
def test_nothing_that_is_planted_leads_a_database_outside_or_holds_it_up(place, name, kind):
    plant(place, name, kind)

    async def run() -> None:
        store = SqliteSessionStore(place.root / "s.db", busy_timeout_s=0.2)
        try:
            await use_sessions(store)
        finally:
            await store.aclose()

    asyncio.run(run())
    place.assert_untouched()


@contextmanager
def swapping(path: Path, outside: Path) -> Iterator[list[int]]:
    """Swap a directory for a link to another one and back, in a thread, again and again."""
    done, count = threading.Event(), [0]
    aside, link = path.with_name(f"{path.name}.aside"), path.with_name(f"{path.name}.link")

    def swap() -> None:
        while not done.is_set():
            with suppress(OSError):
                path.rename(aside)
            with suppress(OSError):
                link.symlink_to(outside, target_is_directory=True)
            with suppress(OSError):
                link.rename(path)
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                aside.rename(path)
            count[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield count
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("name", ["sessions/s", "sessions"])
def test_a_directory_that_is_swapped_for_a_link_meanwhile_leads_nowhere(place, volume, name, record_testsuite_property):
    wanted = volume(short=100, full=1000)

    async def run(count: list[int]) -> None:
        number = 0
        while number < wanted or count[0] < wanted:
            store = FileStore(place.root, limits=LIMITS, lock_timeout_s=0.2)
            for _ in range(5):
                number += 1
                await told(
                    store.append(SESSION, [Record(key=f"{number}", body=f'{{"id":"{number}"}}')]),
                    store.put(SESSION, f"tool_result-{number}.txt", b"x"),
                    store.fence(SESSION, number),
                )
            if number % 50 == 0:
                await told(store.delete(SESSION))
            await store.aclose()

    (place.root / "sessions/s").mkdir(parents=True)
    with swapping(place.root / name, place.base / "deep/within/victim") as count:
        asyncio.run(run(count))
    record_testsuite_property(f"swaps of {name}", str(count[0]))
    place.assert_untouched()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_whatever_the_umask_all_is_private_and_what_was_loose_is_tightened(place, mask):
    before = os.umask(mask)

    async def run() -> None:
        store = FileStore(place.root / "store", limits=LIMITS)
        sessions = TranscriptSessionStore(place.root / "transcripts")
        base = SqliteSessionStore(place.root / "base/s.db")
        for _ in range(2):
            await store.append(SESSION, [Record(key=f"k{n}{_}", body=f'{{"id":"{"x" * n}"}}') for n in (1, 250, 400)])
            await store.put(SESSION, "a.txt", b"a")
            await (await store.fence(SESSION, 3)).append(SESSION, [Record(key="o", body='{"id":"o"}')])
            await (await store.lease(SESSION, owner={}, ttl_s=9.0)).release()
            for one in (sessions, base):
                await one.save(SESSION, STATE, epoch=3)
                async with SessionLocks() as locks:
                    await (await locks.take(SESSION, owner=one, path=one.lock_path(SESSION))).release()
                await one.aclose()
            await store.aclose()
            loose = [] if _ else await asyncio.to_thread(lambda: [*place.root.rglob("*")])
            for path in loose:
                if path.is_file() or path.parent.name in {"sessions", ".fences"}:
                    path.chmod(0o777 if path.is_dir() else 0o666)

    try:
        asyncio.run(run())
    finally:
        os.umask(before)
    for top in ("store", "transcripts", "base"):
        for path in (place.root / top).rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert (path, oct(mode)) == (path, oct(0o700 if path.is_dir() else 0o600))
