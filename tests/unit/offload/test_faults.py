"""Every system call fails in its turn: the n-th for n = 1, 2, 3… until a run has no fault, as SQLite tests itself."""

import asyncio
import errno
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import BLOB, FileLimits, FileStore, Record, lines, read_records, record_key

CALLS = [
    "open",
    "write",
    "close",
    "pread",
    "pwrite",
    "replace",
    "fdatasync",
    "fsync",
    "ftruncate",
    "fstat",
    "link",
    "unlink",
    "mkdir",
    "scandir",
    "stat",
]
CONTENT = b"y" * 5000

pytestmark = pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="counts the system calls of POSIX")


class Faults:
    """Makes the n-th call below a root fail, once or from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = str(root)
        self.failing = 0
        self.lasting = False
        self.code: int | None = None
        self.count = 0
        self.armed = False
        for name in CALLS:
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def arm(self, failing: int, code: int | None, *, lasting: bool) -> None:
        self.failing, self.code, self.lasting, self.count, self.armed = failing, code, lasting, 0, True

    def _wrapped(self, name, real):
        def call(*args, **kwargs):
            elsewhere = isinstance(args[0], str) and args[0].startswith("/") and not args[0].startswith(self.root)
            if not self.armed or elsewhere:
                return real(*args, **kwargs)
            self.count += 1
            if self.count == self.failing or (self.lasting and self.count > self.failing):
                if self.code is None:
                    return (
                        real(args[0], bytes(args[1])[: len(args[1]) // 3 + 1])
                        if name == "write"
                        else real(*args, **kwargs)
                    )
                if name == "close":
                    real(*args)
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return call


def record(identifier: str, size: int = 50) -> Record:
    body = json.dumps({"id": identifier, "text": "x" * size})
    return Record(key=record_key(identifier, body), body=body)


def open_below(root: Path) -> int:
    """Return how many descriptors are open below a root, where the system tells."""
    found = 0
    for item in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").is_dir() else ():
        try:
            found += str(item.readlink()).startswith(str(root))
        except FileNotFoundError:
            continue
    return found


@pytest.fixture
def fast_root(tmp_path):
    """Thousands of syncs: in memory where there is such a file system, for what they cost is not the question."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as root:
        yield Path(root)


async def halves():
    yield CONTENT[:2000]
    yield CONTENT[2000:]


async def check(root: Path, faults: Faults) -> int:
    """Work under the faults, then without; return the descriptors that are open in the end."""
    # A second line begins a new file, and the second record stands in one of its own.
    limits = FileLimits(segment_bytes=100, record_bytes=500)
    store = FileStore(root, limits=limits)
    acknowledged: set[str] = set()
    blobs: list[str] = []
    for number in range(2):
        try:
            await store.append("s", [record(str(number), 50 + 1000 * number)])
            acknowledged.add(str(number))
            if number:
                await (await store.fence("s", 1)).append("s", [record("fenced")])
                acknowledged.add("fenced")
                blobs.append(await store.put_chunks("s", f"tool_result-{number}.txt", halves()))
            else:
                blobs.append(await store.put("s", f"tool_result-{number}.txt", CONTENT))
        except StoreError:
            continue
    faults.armed = False
    for again in (store, FileStore(root, limits=limits)):
        await again.append("s", [record("after")])
        listed = [entry async for entry in again.list("s")]
        records = [entry for entry in listed if entry.kind != BLOB]
        found = [json.loads(lines.bare(data))["id"] async for _, data in read_records(again, records)]
        assert len(found) == len(set(found))
        assert acknowledged | {"after"} <= set(found)
        assert [entry.sequence for entry in records] == list(range(1, len(records) + 1))
        assert {entry.size for entry in listed if entry.kind == BLOB} <= {len(CONTENT)}
        assert [await again.get(blob) for blob in blobs] == [CONTENT] * len(blobs)
        await again.aclose()
    return open_below(root)


@pytest.mark.parametrize(
    ("code", "lasting"),
    [(errno.EIO, False), (errno.ENOSPC, True), (errno.EMFILE, False), (None, False)],
    ids=["EIO", "ENOSPC-for-ever", "EMFILE", "short-write"],
)
def test_whichever_call_fails_nothing_acknowledged_is_lost_repeated_or_partial(fast_root, monkeypatch, code, lasting):
    faults = Faults(monkeypatch, fast_root)
    descriptors = set()
    for failing in range(1, 1000):
        faults.arm(failing, code, lasting=lasting)
        descriptors.add(asyncio.run(check(fast_root / str(failing), faults)))
        if faults.count < failing:
            break
    else:
        pytest.fail("there was no end to the calls")
    assert descriptors == {0}
