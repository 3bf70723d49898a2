"""Descriptors that are kept open: of what was deleted, moved or replaced, of too many sessions, and across a fork."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from ctxkit.errors import StoreWriteError
from ctxkit.offload import FileStore
from ctxkit.offload.files import disk, kept

from .samples import ids, record

LISTED = Path("/proc/self/fd")
counted = pytest.mark.skipif(not LISTED.is_dir(), reason="counts descriptors by /proc")


def below(root: Path) -> int:
    """Return how many descriptors are open below a root."""
    found = 0
    for item in LISTED.iterdir():
        try:
            found += str(item.readlink()).startswith(str(root))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.asyncio
async def test_a_session_that_was_deleted_by_hand_begins_anew(tmp_path):
    import shutil

    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    await asyncio.to_thread(shutil.rmtree, tmp_path / "sessions/s")
    await store.append("s", [record("b")])
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["b"]


@pytest.mark.asyncio
async def test_nothing_is_written_to_a_session_that_was_moved_away(tmp_path):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    (tmp_path / "sessions/s").rename(tmp_path / "trash")
    before = (tmp_path / "trash/context.jsonl").read_bytes()
    await store.append("s", [record("b")])
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["b"]
    assert (tmp_path / "trash/context.jsonl").read_bytes() == before


@pytest.mark.asyncio
async def test_a_log_that_another_program_has_replaced_or_written_anew_is_followed(tmp_path):
    store = FileStore(tmp_path)
    await store.append("s", [record("a"), record("b")])
    path = tmp_path / "sessions/s/context.jsonl"
    path.write_text('{"id":"host","text":"x"}\n')
    await store.append("s", [record("c")])
    assert await ids(store) == ["host", "c"]
    new = path.with_name("new")
    new.write_text('{"id":"other","text":"x"}\n')
    new.replace(path)
    await store.append("s", [record("d")])
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["other", "d"]


@pytest.mark.asyncio
async def test_a_store_whose_process_is_ending_says_so_as_often_as_it_is_asked(tmp_path):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    store._own().writer._thread.shutdown()  # as the interpreter does at its end
    for name in "bc":
        with pytest.raises(StoreWriteError, match="ending"):
            await asyncio.wait_for(store.append("s", [record(name)]), 10)


@counted
@pytest.mark.asyncio
async def test_of_many_sessions_few_are_kept_open_and_none_after_close(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_OPEN_LOGS", 4)
    store = FileStore(tmp_path)
    for turn in range(2):
        for number in range(20):
            await store.append(f"s{number}", [record(f"{turn}-{number}")])
    await asyncio.gather(*(store.append(f"s{number}", [record("together")]) for number in range(20)))
    await asyncio.to_thread(store._disk.threads.shutdown)
    assert below(tmp_path) == 3 * 4
    await store.aclose()
    assert below(tmp_path) == 0
    for number in range(20):
        assert await ids(store, f"s{number}") == [f"0-{number}", f"1-{number}", "together"]


@counted
def test_a_store_that_is_dropped_leaves_nothing_open(tmp_path):
    store = FileStore(tmp_path)
    asyncio.run(store.append("s", [record("a")]))
    assert below(tmp_path) == 3
    store._disk.writer._thread.shutdown()  # it may still be on its way to rest
    del store
    gc.collect()
    assert below(tmp_path) == 0


@counted
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_holds_neither_descriptors_nor_the_lock_of_its_parent(tmp_path):
    store = FileStore(tmp_path)
    asyncio.run(store.append("s", [record("a")]))
    held = store._disk.log("s")._kept
    assert held.try_lock()
    child = os.fork()
    if child == 0:
        os._exit(below(tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    rival = kept.KeptFolder(store._disk.log("s")._open_folder)
    assert not rival.try_lock()
    held.unlock()
    assert rival.try_lock()
    rival.close()


def test_a_store_serves_several_event_loops_one_after_another_and_at_once(tmp_path):
    import threading

    store = FileStore(tmp_path)

    async def write(name: str) -> None:
        await asyncio.gather(*(store.append("s", [record(f"{name}-{number}")]) for number in range(30)))

    threads = [threading.Thread(target=asyncio.run, args=[write(f"t{number}")]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(write("last"))
    found = asyncio.run(ids(store))
    assert len(found) == len(set(found)) == 150


@pytest.mark.asyncio
async def test_a_session_that_another_process_holds_does_not_hold_up_the_others(tmp_path):
    store = FileStore(tmp_path, lock_timeout_s=30)
    await store.append("s", [record("a")])
    rival = await asyncio.to_thread(kept.KeptFolder, store._disk.log("s")._open_folder)
    assert rival.try_lock()
    waiting = asyncio.create_task(store.append("s", [record("b")]))
    for number in range(5):
        await store.append("t", [record(str(number))])
    assert not waiting.done()
    rival.close()
    await waiting
    assert await ids(store) == ["a", "b"]
