"""When what was stored is on the disk, and what follows from a sync that fails."""

import asyncio
import errno
import threading

import pytest

from ctxkit.errors import ConfigError, StoreWriteError
from ctxkit.offload import FileLimits, FileStore
from ctxkit.offload.files import log, mend, writer

from .samples import ids, record


class Syncs:
    """Counts the syncs of logs, and lets them fail."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.fails = False
        self.called = threading.Event()
        for module in (log, mend):
            monkeypatch.setattr(module, "sync_file", self)

    def __call__(self, _descriptor):
        self.count += 1
        self.called.set()
        if self.fails:
            raise OSError(errno.EIO, "I/O error")


@pytest.fixture
def syncs(monkeypatch):
    return Syncs(monkeypatch)


async def told(store, *numbers):
    said = await asyncio.gather(*(store.append("s", [record(str(at))]) for at in numbers), return_exceptions=True)
    return [isinstance(one, str) for one in said]


@pytest.mark.asyncio
async def test_always_syncs_each_group_before_it_answers_and_many_share_one(tmp_path, syncs):
    store = FileStore(tmp_path)
    for number in range(3):
        await store.append("s", [record(str(number))])
        assert syncs.count == number + 1
    await told(store, *range(3, 103))
    assert syncs.count < 30


@pytest.mark.asyncio
async def test_batch_syncs_in_the_background_without_being_asked(tmp_path, syncs, monkeypatch):
    monkeypatch.setattr(writer, "_SYNC_AFTER_S", 0.01)
    store = FileStore(tmp_path, fsync="batch")
    await store.append("s", [record("a")])
    await asyncio.to_thread(store._disk.writer._thread.shutdown)
    assert syncs.count == 1


@pytest.mark.asyncio
async def test_batch_syncs_what_is_left_when_it_is_closed_and_off_never_does(tmp_path, syncs, monkeypatch):
    monkeypatch.setattr(writer, "_SYNC_AFTER_S", 3600.0)
    for fsync, expected in (("batch", 1), ("off", 0)):
        syncs.count = 0
        store = FileStore(tmp_path / fsync, fsync=fsync)
        await store.append("s", [record("a")])
        assert syncs.count == 0
        await store.aclose()
        assert syncs.count == expected
        assert await ids(store) == ["a"]


@pytest.mark.asyncio
async def test_after_a_failed_sync_nothing_is_acknowledged_until_the_log_was_read_anew(tmp_path, syncs):
    store = FileStore(tmp_path)
    assert await told(store, 0) == [True]
    syncs.fails = True
    assert await told(store, 1, 2) == [False, False]
    assert await told(store, 2, 3) == [False, False]
    kept = store._disk.log("s")._kept
    syncs.fails = False
    assert await told(store, 3, 1) == [True, True]
    assert kept is None
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["0", "3", "1"]


@pytest.mark.asyncio
async def test_a_failed_write_is_never_taken_back_from_under_what_another_has_stored_since(
    tmp_path, syncs, monkeypatch
):
    store, other = FileStore(tmp_path), FileStore(tmp_path)
    await told(store, 0)

    def fail(*_):
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(log.os, "ftruncate", fail)
        syncs.fails = True
        assert await told(store, 1) == [False]
        syncs.fails = False
        assert await told(other, 2, 1) == [True, True]
    assert await told(store, 3) == [True]
    assert sorted(await ids(FileStore(tmp_path))) == ["0", "1", "2", "3"]


@pytest.mark.asyncio
async def test_what_was_acknowledged_before_a_sync_that_failed_is_written_again(tmp_path, syncs, monkeypatch):
    monkeypatch.setattr(writer, "_SYNC_AFTER_S", 0.0)
    rewritten = []
    real = mend.write_again

    def watched(folder, name, start):
        rewritten.append(start)
        real(folder, name, start)

    monkeypatch.setattr(log.mend, "write_again", watched)
    store = FileStore(tmp_path, fsync="batch")
    syncs.fails = True
    await store.append("s", [record("0")])
    await asyncio.to_thread(syncs.called.wait, 60)
    with pytest.raises(StoreWriteError, match="EIO"):
        await store.append("s", [record("1")])
    syncs.fails = False
    await store.append("s", [record("2")])
    assert rewritten == [0, 0]
    assert await ids(store) == ["0", "2"]
    await store.aclose()


@pytest.mark.asyncio
async def test_a_sync_that_fails_before_a_new_file_is_begun_begins_none(tmp_path, syncs):
    store = FileStore(tmp_path, fsync="batch", limits=FileLimits(segment_bytes=10))
    await store.append("s", [record("0")])
    syncs.fails = True
    with pytest.raises(StoreWriteError, match="EIO"):
        await store.append("s", [record("1")])
    assert sorted(path.name for path in (tmp_path / "sessions/s").glob("*.jsonl")) == ["context.jsonl"]
    syncs.fails = False
    await store.append("s", [record("2")])
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["0", "2"]
    await store.aclose()


def test_another_word_for_when_to_sync_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'always', 'batch', 'off'"):
        FileStore(tmp_path, fsync="never")
