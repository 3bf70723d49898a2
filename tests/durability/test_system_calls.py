"""R4: every system call of a store fails in its turn, once and from then on, as SQLite tests itself.

What was acknowledged is there and would outlive a power cut at that very moment, nothing is there twice, and nothing stays
open, locked or running. The same for a cancellation at every await.
"""

import asyncio
import gc
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import BLOB, FileLimits, FileStore, Record, Store, lines, read_records

from .faulty_calls import FAILURES, FAULTS, FaultyCalls, open_descriptors
from .power import Power

SESSION = "s"
LIMITS = FileLimits(segment_bytes=700, record_bytes=500)
"""Small ones, so that a record stands in a file of its own, and the log goes on in further files."""
PATIENCE_S = 60.0
"""Nothing that is tried here takes so long, unless two wait for each other."""
CONTENT = {f"tool_result-{number}.txt": f"{number};".encode() * 2000 for number in range(3)}
TORN = b'{"id":"torn","text":"its writer was kill'
BAD = b'{"id": nobody}'

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("X1"),
    pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="lets the system calls of Linux fail"),
]


def record(identifier: str, size: int = 60) -> Record:
    body = json.dumps({"id": identifier, "text": "x" * size})
    return Record(key=identifier, body=body)


async def in_chunks(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), 1500):
        yield content[at : at + 1500]


class Session:
    """Works on one session, and remembers what it was told is stored."""

    def __init__(self, root: Path, store: FileStore, power: Power | None) -> None:
        self.root = root
        self.store = store
        self.power = power
        self.acknowledged: list[str] = []
        self.refused: list[Record] = []
        self.blobs: dict[str, str] = {}
        """References by name."""
        self.owner: Store = store

    @property
    def folder(self) -> Path:
        return self.root / "sessions" / SESSION

    @property
    def log(self) -> list[Path]:
        first = self.folder / "context.jsonl"
        return [first, *sorted(self.folder.glob("context-*.jsonl"))] if first.exists() else []

    async def append(self, *records: Record) -> None:
        """Append in one call: all of them are there afterwards, or the call says why not."""
        try:
            await self.owner.append(SESSION, records)
        except StoreError:
            self.refused += records
            return
        self.acknowledged += [one.key for one in records]
        spilled = [self.folder / lines.spill_name(one.body.encode()) for one in records if len(one.body) > 500]
        self._is_safe(*self.log, *spilled)

    async def put(self, name: str, *, chunked: bool = False) -> None:
        content = CONTENT[name]
        try:
            if chunked:
                self.blobs[name] = await self.owner.put_chunks(SESSION, name, in_chunks(content))
            else:
                self.blobs[name] = await self.owner.put(SESSION, name, content)
        except StoreError:
            return
        self._is_safe(Path(self.blobs[name]))

    async def fence(self, epoch: int) -> None:
        try:
            self.owner = await self.store.fence(SESSION, epoch)
        except StoreError:
            return
        self._is_safe(self.folder / ".epoch")

    async def read(self) -> None:
        """List, search and read; what is told is right, or it is said that it cannot be."""
        try:
            entries = [entry async for entry in self.store.list(SESSION)]
            assert set(self.acknowledged) <= {entry.key for entry in entries}
            for name, reference in self.blobs.items():
                assert await self.store.get(reference) == CONTENT[name]
            found = {entry.key async for entry in self.store.search(SESSION, "xxx")}
            assert set(self.acknowledged) <= found
        except StoreError:
            return

    async def own(self) -> None:
        """Take the session and let go of it."""
        try:
            lease = await self.store.lease(SESSION, owner={"name": "a test"}, ttl_s=60.0)
        except StoreError:
            return
        await lease.release()

    async def delete_another(self) -> None:
        try:
            await self.store.append("another", [record("another")])
            await self.store.delete("another")
        except StoreError:
            return
        assert not (self.root / "sessions" / "another").exists()

    def damage(self) -> None:
        """Leave what crashes may leave: a line in the middle that is none, and a last one without its end."""
        for file, what in zip(self.log[-1:], (BAD + b"\n" + TORN,), strict=False):
            with file.open("ab") as log:
                log.write(what)

    async def work(self) -> None:
        await self.append(record("first"), record("second"))
        await self.put("tool_result-0.txt")
        await self.append(record("spilled", 1000))
        await asyncio.gather(*(self.append(record(f"together-{at}", 100)) for at in range(3)))
        await self.put("tool_result-1.txt", chunked=True)
        await self.read()
        await self.append(record("in another file"))
        await self.fence(1)
        await self.append(record("fenced"), record("first"))
        self.damage()
        await self.append(record("behind the damage"))
        await self.put("tool_result-2.txt")
        await self.delete_another()
        await self.own()

    async def work_again(self) -> None:
        """Repeat what failed: the callers of a store do that."""
        self.owner = self.store
        refused, self.refused = self.refused, []
        for one in refused:
            await self.append(one)
        for name in CONTENT:
            await self.put(name)
        await self.fence(1)
        await self.own()
        assert self.refused == []
        assert set(self.blobs) == set(CONTENT)

    async def check(self) -> None:
        """Ask the same store and a fresh one."""
        for store in (self.store, FileStore(self.root, limits=LIMITS)):
            entries = [entry async for entry in store.list(SESSION)]
            records = [entry for entry in entries if entry.kind != BLOB]
            keys = [entry.key for entry in records if entry.key is not None]
            assert len(keys) == len(set(keys))
            assert sorted(keys) == sorted(set(self.acknowledged))
            assert [entry.sequence for entry in records] == list(range(1, len(records) + 1))
            bodies = [json.loads(lines.bare(data))["id"] async for _, data in read_records(store, records)]
            assert bodies == keys
            assert {entry.name for entry in entries if entry.kind == BLOB} == set(CONTENT)
            assert {name: await store.get(reference) for name, reference in self.blobs.items()} == CONTENT
            await store.aclose()
        for file in self.log:
            for line in file.read_bytes().split(b"\n"):
                assert not line.strip() or json.loads(line)

    def _is_safe(self, *files: Path) -> None:
        if self.power is not None:
            assert self.power.would_take(*files) == []


async def run(root: Path, calls: FaultyCalls, power: Power, *, fsync: Any = "always") -> None:
    """Work under faults, then without; nobody may wait for ever."""
    store = FileStore(root, fsync=fsync, limits=LIMITS, lock_timeout_s=PATIENCE_S / 2)
    session = Session(root, store, power if fsync == "always" else None)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await session.work()
            calls.stop()
            await session.work_again()
            await session.check()
    finally:
        calls.stop()
        await store.aclose()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is such a file system: what a sync costs is not the question."""
    there = Path("/dev/shm")
    with TemporaryDirectory(dir=there if there.is_dir() else tmp_path) as root:
        yield Path(root)


@pytest.mark.parametrize("failure", FAILURES)
def test_whichever_call_fails_what_was_acknowledged_is_there_once_and_would_outlive_a_power_cut(
    memory, monkeypatch, volume, figures, failure
):
    fault, for_ever = failure
    power = Power()
    calls = FaultyCalls(monkeypatch, watch=power)
    stride = volume(short=31, full=1)
    gc.collect()  # what other tests have left open is closed now, not amid the faults
    before, running = open_descriptors(), set(threading.enumerate())
    runs = 0
    for number in count(Random(f"{fault} {for_ever}").randint(1, stride), stride):
        calls.fail(number, FAULTS[fault], for_ever=for_ever)
        asyncio.run(run(memory / f"{number}", calls, power))
        where = f"call {number} failed: {calls.failed[:1]}"
        assert open_descriptors() == before, where
        assert set(threading.enumerate()) - running == set(), where
        runs += 1
        if not calls.failed:
            break
    figures(f"stores whose n-th system call fails, {fault}, for ever: {for_ever}: {runs} runs of {number} calls")


@pytest.mark.parametrize("fault", ["EIO", "ENOSPC"])
def test_after_a_failed_sync_nothing_is_acknowledged_until_all_of_it_is_written_again(memory, monkeypatch, fault):
    power = Power()
    calls = FaultyCalls(monkeypatch, watch=power)

    async def work() -> None:
        session = Session(memory, FileStore(memory, limits=LIMITS), power)
        await session.append(record("before"))
        calls.fail_all("fdatasync", "fsync", "ftruncate", fault=FAULTS[fault])
        for number in range(20):
            await session.append(record(f"{number}"))
        assert session.acknowledged == ["before"]
        calls.fail_all("ftruncate", fault=FAULTS[fault])  # what was written and not synced cannot be taken back either
        await session.append(record("while"))
        calls.stop()
        await session.work_again()
        await session.check()

    asyncio.run(work())
