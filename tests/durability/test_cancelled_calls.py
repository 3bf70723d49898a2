"""R4: a cancellation at every await of each call of a store; the same call again stores it once, and nothing is left behind."""

import asyncio
import gc
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ctxkit.offload import BLOB, FileLimits, FileStore, MemoryStore, Record, Store, lines, read_records

from .faulty_calls import open_descriptors

CONTENT = b"0123456789" * 20_000
NAME = "tool_result-1.txt"
LIMITS = FileLimits(segment_bytes=700, record_bytes=50_000)
RECORDS = [
    Record(key=f"{number}", body=json.dumps({"id": f"{number}", "text": "x" * size}))
    for number, size in enumerate((10, 40_000, 60_000, 200))
]
"""One is encoded in pieces, one stands in a file of its own, and the last one in the same call as all of them."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("X1"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors as Linux does"),
]


class CancelledAt:
    """Runs a call and cancels its task where it waits for the n-th time.

    Args:
        call: The call.
        number: 0-based.
        is_late: Whether a thread that it waits for is given the time to end before.
    """

    def __init__(self, call: Coroutine[Any, Any, object], number: int, *, is_late: bool) -> None:
        self._call = call
        self._number = number
        self._is_late = is_late
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, object]:
        """Go on from wait to wait."""
        for number in count():
            try:
                waited_for = self._call.send(None)
            except StopIteration as stop:
                return stop.value
            if number == self._number:
                task = asyncio.current_task()
                assert task is not None
                if self._is_late:
                    threading.Event().wait(0.003)  # the loop stands still, and what was done cannot be told to it
                self.was_cancelled = task.cancel()
            try:
                yield waited_for
            except asyncio.CancelledError as exc:
                self._call.throw(exc)
                raise
        return None


async def in_chunks() -> AsyncIterator[bytes]:
    for at in range(0, len(CONTENT), 70_000):
        await asyncio.sleep(0)
        yield CONTENT[at : at + 70_000]


async def all_of(found: AsyncIterator[object]) -> list[object]:
    return [one async for one in found]


async def fence_and_append(store: Any) -> None:
    await (await store.fence("s", 1)).append("s", RECORDS)


CALLS: dict[str, Callable[[Any], Coroutine[Any, Any, object]]] = {
    "append": lambda store: store.append("s", RECORDS),
    "fence": fence_and_append,
    "put": lambda store: store.put("s", NAME, CONTENT),
    "put_chunks": lambda store: store.put_chunks("s", NAME, in_chunks()),
    "get": lambda store: store.get(store.reference("there", NAME, CONTENT)),
    "list": lambda store: all_of(store.list("there")),
    "search": lambda store: all_of(store.search("there", "xxx")),
}


async def check(store: Store, session: str, expected: set[str]) -> None:
    """Nothing is there but what was stored, whole and once."""
    entries = [entry async for entry in store.list(session)]
    records = [entry for entry in entries if entry.kind != BLOB]
    found = [lines.bare(data).decode() async for _, data in read_records(store, records)]
    wanted = {one.key: one.body for one in RECORDS if one.key in expected}
    assert {entry.key: body for entry, body in zip(records, found, strict=True)} == wanted
    assert [entry.sequence for entry in records] == list(range(1, len(wanted) + 1))
    blobs = [entry.reference for entry in entries if entry.kind == BLOB]
    assert [await store.get(one) for one in blobs] == [CONTENT] * (NAME in expected)


async def cancel(store: Any, name: str, number: int, *, is_late: bool) -> bool:
    """Cancel a call at its n-th await, make it once more, and return whether there was such an await."""
    await store.append("there", RECORDS)
    await store.put("there", NAME, CONTENT)
    call = CancelledAt(CALLS[name](store), number, is_late=is_late)

    async def run() -> object:
        return await call

    first = asyncio.create_task(run())
    try:
        await first
    except asyncio.CancelledError:
        assert call.was_cancelled
    stores = {"append": {one.key for one in RECORDS}, "fence": {one.key for one in RECORDS}}
    expected = stores.get(name, {NAME} if name.startswith("put") else set())
    again = await CALLS[name](store)
    if name == "get":
        assert again == CONTENT
    await check(store, "s", expected)
    await check(store, "there", {NAME, *(one.key for one in RECORDS)})
    return call.was_cancelled


@pytest.mark.parametrize("is_late", [False, True], ids=["at-once", "when-it-is-done"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_a_store_on_files_that_is_cancelled_and_made_again_stores_once(tmp_path, name, is_late):
    async def run(root: Path, number: int) -> bool:
        store = FileStore(root, limits=LIMITS)
        try:
            async with asyncio.timeout(60):
                return await cancel(store, name, number, is_late=is_late)
        finally:
            await store.aclose()

    gc.collect()  # what other tests have left open is closed now, not amid the faults
    before, running = open_descriptors(), set(threading.enumerate())
    for number in count():
        root = tmp_path / f"{number}"
        was_cancelled = asyncio.run(run(root, number))
        assert open_descriptors() == before
        assert set(threading.enumerate()) - running == set()
        assert [*root.glob("**/.tmp-*")] == []
        if not was_cancelled:
            break
    assert number >= 1


@pytest.mark.asyncio
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_of_a_store_in_memory_that_is_cancelled_and_made_again_stores_once(name):
    for number in count():
        if not await cancel(MemoryStore(), name, number, is_late=False):
            break
