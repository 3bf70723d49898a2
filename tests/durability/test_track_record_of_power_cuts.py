"""R8: every bug that endangered what was stored, each with a small reproduction."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import FileLimits, FileStore, Record

from .disk_states import Disk
from .recorder import Recorder

SESSION = "s"
FIRST, SECOND, THIRD = (Record(key=key, body=f'{{"id":"{key}"}}') for key in ("first", "second", "third"))

pytestmark = [
    pytest.mark.may_block("makes small disks"),
    pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="records the system calls of POSIX"),
]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Records what stores do in a directory that is empty."""
    with TemporaryDirectory() as disk:
        yield Recorder(Path(disk))


def keys_after_power_cut(recorder: Recorder, place: Path) -> list[str | None]:
    """Return the keys on a disk on which is what was synced, and nothing else."""
    disk = Disk(recorder.root, sector=512)
    for step in recorder.trace:
        disk.do(step)
    _, synced = disk.states(Random(), 2)
    synced.make(place)

    async def keys() -> list[str | None]:
        store = FileStore(place / "store")
        found = [entry.key async for entry in store.list(SESSION)]
        await store.aclose()
        return found

    return asyncio.run(keys())


async def die(recorder: Recorder, store: FileStore, record: Record, *, at: int) -> None:
    """Append as a process that dies in one of its system calls, 1-based; as one that lives where it makes fewer."""
    recorder.fail_after(at, lasting=True)
    with suppress(StoreError):
        await store.append(SESSION, [record])
    await store.aclose()
    recorder.fail_after(None)


@pytest.mark.parametrize("at", range(1, 20))
def test_a_directory_whose_maker_was_killed_before_the_sync_is_synced_by_the_next_writer(recorder, tmp_path, at):
    """Found by crash states: only who made a directory synced its name; a power cut took all that stood in it."""

    async def live() -> None:
        await die(recorder, FileStore(recorder.disk / "store"), FIRST, at=at)
        store = FileStore(recorder.disk / "store")
        await store.append(SESSION, [SECOND])
        await store.aclose()

    with recorder.recording():
        asyncio.run(live())
    assert keys_after_power_cut(recorder, tmp_path)[-1] == SECOND.key


@pytest.mark.parametrize("at", range(1, 20))
def test_a_file_of_the_log_whose_beginner_was_killed_before_the_sync_is_synced_by_a_writer_that_had_the_log_open(
    recorder, tmp_path, at
):
    """Found by crash states: who had the session open went on in the new file, whose name no one had synced."""

    async def live() -> None:
        limits = FileLimits(segment_bytes=1)
        store, other = (FileStore(recorder.disk / "store", limits=limits) for _ in range(2))
        await store.append(SESSION, [FIRST])
        await die(recorder, other, SECOND, at=at)
        await store.append(SESSION, [THIRD])
        await store.aclose()

    with recorder.recording():
        asyncio.run(live())
    found = keys_after_power_cut(recorder, tmp_path)
    assert (found[0], found[-1]) == (FIRST.key, THIRD.key)


def test_a_line_that_lacks_only_its_line_break_is_synced_before_it_answers_for_a_record_that_is_sent_again(
    recorder, tmp_path
):
    """Found by reading: the line break was synced with the file that came next, so a power cut took the record."""
    store = recorder.disk / "store"

    def cut_line_break() -> None:
        descriptor = os.open(store / "sessions/s/context.jsonl", os.O_RDWR)
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 1)
        os.fdatasync(descriptor)
        os.close(descriptor)

    async def live() -> None:
        for limits in (None, FileLimits(segment_bytes=1)):
            writer = FileStore(store, limits=limits)
            await writer.append(SESSION, [FIRST])
            await writer.aclose()
            if limits is None:
                await asyncio.to_thread(cut_line_break)

    with recorder.recording():
        asyncio.run(live())
    assert keys_after_power_cut(recorder, tmp_path) == [FIRST.key]
