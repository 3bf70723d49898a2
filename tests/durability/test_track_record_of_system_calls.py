"""R8: bugs that put data at risk and that failing system calls have shown, each with the shortest way to it.

| What was wrong | Until |
|---|---|
| a short read was taken for the end of a file, so content came back cut | all of it is read |
| a blob was acknowledged in a directory whose own name had never reached the disk | the way to it is synced first |
| a fence was acknowledged that the call before had failed to sync | it is synced whoever wrote it |
| the mended end of a full log file was not synced before the log went on in the next one | it is synced at once |
| what a killed writer had left was acknowledged after a sync that failed, since the next one said nothing | it is written again |
| an error of `close` lost the lease on a session, which stayed locked for the life of the process | it is passed over |
| a lock that could not be let go of was let go of again when it was closed already | it is tried once |
"""

import errno
import gc
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import BLOB, FileLimits, FileStore, Record, Store

from .faulty_calls import SHORT, FaultyCalls, open_descriptors
from .power import Power

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.crash,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lets the system calls of Linux fail"),
]


def record(identifier: str) -> Record:
    return Record(key=identifier, body=json.dumps({"id": identifier}))


async def keys(store: Store) -> list[str | None]:
    return [entry.key async for entry in store.list("s") if entry.kind != BLOB]


async def is_refused(call: Awaitable[object]) -> bool:
    try:
        await call
    except StoreError:
        return True
    return False


@pytest.fixture
def power() -> Power:
    return Power()


@pytest.fixture
def calls(monkeypatch, power) -> FaultyCalls:
    return FaultyCalls(monkeypatch, watch=power)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "sessions" / "s"


async def test_a_short_read_is_not_the_end_of_what_is_read(tmp_path, calls):
    store = FileStore(tmp_path)
    content = b"0123456789" * 1000
    blob = await store.put("s", "a.txt", content)
    calls.fail_all("pread", fault=SHORT)
    assert await store.get(blob) == content
    assert await store.get(blob, 5, 5000) == content[5:5005]
    calls.stop()
    await store.aclose()


async def test_a_directory_that_could_not_be_synced_is_synced_before_something_in_it_is_acknowledged(
    tmp_path, calls, power
):
    store = FileStore(tmp_path)
    calls.fail_all("fsync", fault=errno.EIO)
    assert await is_refused(store.put("s", "a.txt", b"a"))
    calls.stop()
    blob = await store.put("s", "a.txt", b"a")
    assert power.would_take(Path(blob)) == []
    await store.aclose()


async def test_a_directory_whose_maker_could_neither_sync_nor_remove_it_is_synced_by_the_next_writer(
    tmp_path, calls, power
):
    maker, store = FileStore(tmp_path), FileStore(tmp_path)
    calls.fail_all("fsync", "rmdir", fault=errno.EIO)
    assert await is_refused(maker.put("s", "a.txt", b"a"))
    calls.stop()
    blob = await store.put("s", "a.txt", b"a")
    assert power.would_take(Path(blob)) == []
    for one in (maker, store):
        await one.aclose()


async def test_a_fence_that_could_not_be_synced_is_synced_before_it_is_acknowledged(tmp_path, calls, power, folder):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    calls.fail_all("fsync", fault=errno.EIO)
    assert await is_refused(store.fence("s", 5))
    calls.stop()
    await store.fence("s", 5)
    assert power.would_take(folder / ".epoch") == []
    await store.aclose()


async def test_the_end_of_a_full_file_is_on_the_disk_before_the_log_goes_on_in_another(tmp_path, calls, power, folder):
    limits = FileLimits(segment_bytes=10)
    store, other = FileStore(tmp_path, limits=limits), FileStore(tmp_path, limits=limits)
    await store.append("s", [record("a")])
    log = folder / "context.jsonl"
    log.write_bytes(log.read_bytes().removesuffix(b"\n"))  # its writer was killed between the line and its end
    await other.append("s", [record("a")])
    await other.append("s", [record("b")])
    assert power.would_take(log, folder / "context-0002.jsonl") == []
    assert await keys(store) == ["a", "b"]
    for one in (store, other):
        await one.aclose()


async def test_what_a_killed_writer_left_is_written_again_when_it_could_not_be_synced(tmp_path, calls, power, folder):
    killed, store = FileStore(tmp_path, fsync="off"), FileStore(tmp_path)
    await killed.append("s", [record("a")])
    calls.fail_all("fdatasync", fault=errno.EIO)
    assert await is_refused(store.append("s", [record("a")]))
    calls.stop()
    await store.append("s", [record("a")])
    assert power.would_take(folder / "context.jsonl") == []
    assert await keys(store) == ["a"]
    for one in (killed, store):
        await one.aclose()


async def test_an_error_of_close_loses_no_lease(tmp_path, calls):
    store = FileStore(tmp_path)
    owner = {"name": "a test"}
    calls.fail_all("close", fault=errno.EIO)
    lease = await store.lease("s", owner=owner, ttl_s=60.0)
    await lease.release()
    calls.stop()
    await (await store.lease("s", owner=owner, ttl_s=60.0)).release()
    await store.aclose()


async def test_a_lock_that_cannot_be_let_go_of_is_closed_once(tmp_path, calls):
    before = open_descriptors()
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    calls.fail_all("flock", fault=errno.EIO, after=1)
    assert await is_refused(store.append("s", [record("b")]))
    await store.aclose()
    calls.stop()
    gc.collect()  # an error of a finalizer fails the test
    assert {one for one in open_descriptors() - before if str(tmp_path) in one[1]} == set()
