"""R4: a disk that is full, and files that may not grow: what cannot be stored is refused, and all else stays."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctxkit.errors import StoreWriteError
from ctxkit.offload import BLOB, FileStore, Record, lines, read_records
from ctxkit.sessions import SessionStore, SqliteSessionStore, TranscriptSessionStore

from .faulty_calls import open_descriptors

pytestmark = [pytest.mark.crash, pytest.mark.row("X1")]

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
needs_mounts = pytest.mark.skipif(not IS_ROOT, reason="only root may mount a small file system")


@dataclass(frozen=True)
class SmallDisk:
    """A file system in memory that is full after a few records."""

    root: Path

    def resize(self, size: str) -> None:
        """Give it another size, as `mount` writes it."""
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.root)], check=True)

    def set_read_only(self, *, is_read_only: bool) -> None:
        """Refuse all writes from now on, or take them again."""
        subprocess.run(["mount", "-o", f"remount,{'ro' if is_read_only else 'rw'}", str(self.root)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    root = tmp_path / "small"
    root.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(root)], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)


def record(identifier: str, size: int = 3000) -> Record:
    return Record(key=identifier, body=json.dumps({"id": identifier, "text": "x" * size}))


async def bodies_in(store: FileStore) -> list[str]:
    entries = [entry async for entry in store.list("s") if entry.kind != BLOB]
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    return [lines.bare(data).decode() async for _, data in read_records(store, entries)]


async def append_all(store: FileStore, number: int) -> tuple[list[Record], list[Record]]:
    """Append so many records, and return those that were taken and those that were refused."""
    taken, refused = [], []
    for at in range(number):
        one = record(f"{at}")
        try:
            await store.append("s", [one])
        except StoreWriteError:
            refused.append(one)
        else:
            taken.append(one)
    return taken, refused


@needs_mounts
@pytest.mark.asyncio
async def test_a_full_disk_refuses_what_it_cannot_hold_and_takes_it_when_there_is_space_again(small):
    before = open_descriptors()
    store = FileStore(small.root)
    blob = await store.put("s", "tool_result-0.txt", b"kept" * 100)
    taken, refused = await append_all(store, 40)
    assert taken
    assert len(refused) > 10
    with pytest.raises(StoreWriteError, match="ENOSPC"):
        await store.put("s", "tool_result-1.txt", b"z" * 60_000)

    for one in (store, FileStore(small.root)):  # all that was taken can be read while it is full
        assert await bodies_in(one) == [record.body for record in taken]
        assert await one.get(blob) == b"kept" * 100
        assert [entry.name async for entry in one.list("s") if entry.kind == BLOB] == ["tool_result-0.txt"]
    for line in (small.root / "sessions" / "s" / "context.jsonl").read_bytes().splitlines():
        json.loads(line)

    small.resize("1m")
    for one in refused:
        await store.append("s", [one])
    large = await store.put("s", "tool_result-1.txt", b"z" * 60_000)
    fresh = FileStore(small.root)
    assert await bodies_in(fresh) == [record.body for record in [*taken, *refused]]
    assert await fresh.get(large) == b"z" * 60_000
    for one in (store, fresh):
        await one.aclose()
    assert {entry for entry in open_descriptors() - before if str(small.root) in entry[1]} == set()


@needs_mounts
@pytest.mark.asyncio
async def test_deleting_a_session_makes_space_on_a_full_disk(small):
    store = FileStore(small.root)
    await store.append("other", [record("other", 20_000)])
    taken, refused = await append_all(store, 20)
    assert refused
    await store.delete("other")
    await store.append("s", [refused[0]])
    assert await bodies_in(store) == [record.body for record in [*taken, refused[0]]]
    await store.aclose()


@needs_mounts
@pytest.mark.asyncio
async def test_a_directory_that_becomes_read_only_refuses_and_is_read_and_takes_again(small):
    store = FileStore(small.root)
    await store.append("s", [record("a")])
    await store.aclose()  # what is open for writing keeps a file system from being made read-only
    small.set_read_only(is_read_only=True)
    with pytest.raises(StoreWriteError, match="EROFS"):
        await store.append("s", [record("b")])
    with pytest.raises(StoreWriteError, match="EROFS"):
        await store.put("s", "a.txt", b"a")
    assert await bodies_in(store) == [record("a").body]
    await store.aclose()
    small.set_read_only(is_read_only=False)
    await store.append("s", [record("b")])
    assert await bodies_in(store) == [record("a").body, record("b").body]
    await store.aclose()


def state(number: int, size: int = 500) -> dict[str, object]:
    """Return a state with so many messages."""
    context = [
        {"id": f"m{at}", "role": "assistant", "content": [{"type": "text", "text": f"{at};" * size}]}
        for at in range(number)
    ]
    return {"session_id": "s", "summary": f"{number} messages", "context": context}


@needs_mounts
@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["sqlite", "transcript"])
async def test_a_session_that_does_not_fit_on_the_disk_leaves_the_one_saved_before(small, kind):
    small.resize("256k")  # an empty database takes 100 KB

    def opened() -> SessionStore:
        root = small.root
        return SqliteSessionStore(root / "sessions.db") if kind == "sqlite" else TranscriptSessionStore(root)

    store = opened()
    last, refused = 0, 0
    for number in range(1, 120):
        try:
            await store.save("s", state(number))
        except StoreWriteError:
            refused += 1
        else:
            last = number
        fresh = opened()
        found = await fresh.load("s")
        await fresh.aclose()
        assert found is not None
        assert found.state == state(last)
        if refused > 5:
            break
    assert last
    assert refused > 5
    small.resize("8m")
    await store.save("s", state(200))
    found = await store.load("s")
    assert found is not None
    assert found.state == state(200)
    await store.aclose()


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_file_that_may_not_grow_refuses_what_it_cannot_hold_and_keeps_the_rest(tmp_path):
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    program = Path(__file__).with_name("limited.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], check=True, env=environment, capture_output=True, timeout=60
    )
    told = json.loads(done.stdout)
    assert told["taken"][:5] == ["0", "1", "2", "3", "4"]
    assert len(told["refused"]) > 10
    assert all("EFBIG" in problem for problem in told["problems"])
    found = asyncio.run(bodies_in(FileStore(tmp_path)))
    assert [json.loads(body)["id"] for body in found] == [*told["taken"], told["refused"][0]]
