"""A lease on a file: one owner, whoever dies, with a number that only grows."""

import asyncio
import errno
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import SessionLockedError, StoreWriteError
from ctxkit.offload.capabilities import Lease
from ctxkit.offload.locks import file_lease, lease_file, marker_lock
from ctxkit.offload.locks.file_lease import FileLease, holder_of, take, try_take
from ctxkit.offload.locks.holder import Holder
from ctxkit.offload.locks.lease_wait import ThreadedLease, lease_when_free
from ctxkit.offload.locks.lock import KernelLock

SCRIPT = Path(__file__).with_name("leaseholder.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[3]), *sys.path])}
NAME = "s.lock"

posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks")
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def start(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lease, and its epoch."""
    process = start(tmp_path, NAME)
    yield process, int(process.stdout.readline())
    process.kill()
    process.communicate()


@pytest.fixture(params=["kernel", "markers"])
def way(request, monkeypatch):
    """Both ways to keep others out: by the kernel's lock, and where the file system has none."""
    if request.param == "markers":

        def no_locks(self):
            raise OSError(errno.ENOLCK, "no locks available")

        monkeypatch.setattr(KernelLock, "try_take", no_locks)
    return request.param


def record(folder):
    return json.loads((folder / NAME).read_text())


def test_one_owner_at_a_time_and_each_has_a_higher_number(tmp_path, way):
    epochs = []
    for _ in range(5):
        lease = take(tmp_path, NAME, owner={})
        assert not isinstance(try_take(tmp_path, NAME, owner={}), FileLease)
        epochs.append(lease.epoch)
        lease.release()
    assert epochs == sorted(set(epochs))
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_who_holds_it_is_told_to_those_who_wait(tmp_path, way):
    lease = take(tmp_path, NAME, owner={"agent": "scribe"})
    with pytest.raises(SessionLockedError, match=rf"pid {os.getpid()} on host .*, agent 'scribe', since 20") as caught:
        take(tmp_path, NAME, owner={}, timeout_s=0.01)
    assert caught.value.holder == lease.holder.to_json()
    lease.release()


def test_the_file_is_one_json_document_with_the_record_of_the_seed_in_it(tmp_path):
    before = time.time() * 1000
    lease = take(tmp_path, NAME, owner={"agent": "scribe"})
    found = record(tmp_path)
    assert found["pid"] == os.getpid()
    assert before - 1 <= found["createdAt"] <= time.time() * 1000
    assert (found["owner"], found["epoch"]) == ({"agent": "scribe"}, lease.epoch)
    assert "releasedAt" not in found
    lease.release()
    assert record(tmp_path)["releasedAt"] >= found["createdAt"]


def test_the_file_is_private_and_a_link_in_its_place_is_refused(tmp_path):
    take(tmp_path, NAME, owner={}).release()
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "link.lock").symlink_to(victim)
    with pytest.raises(StoreWriteError, match="ELOOP"):
        take(tmp_path, "link.lock", owner={})
    assert victim.read_text() == "mine"


def test_an_owner_may_say_anything_of_itself(tmp_path):
    hostile = {"agent\n": "x" * 10_000, "b": '\ud800\x00"}]', "c": 10**5000, "d": "\U0001f600" * 200, "e": "dropped"}
    lease = take(tmp_path, NAME, owner=hostile)
    assert record(tmp_path)["pid"] == os.getpid()
    with pytest.raises(SessionLockedError, match=f"pid {os.getpid()}"):
        take(tmp_path, NAME, owner=hostile)
    lease.release()
    assert take(tmp_path, NAME, owner={}).epoch > lease.epoch


@given(junk=st.binary(max_size=1400), offset=st.integers(0, 1200))
def test_a_torn_record_never_stops_the_next_owner(tmp_path_factory, junk, offset):
    folder = tmp_path_factory.mktemp("torn")
    lease = take(folder, NAME, owner={})
    lease.release()
    with (folder / NAME).open("r+b") as file:
        file.seek(offset)
        file.write(junk)
    following = take(folder, NAME, owner={})
    assert following.epoch > lease.epoch
    following.release()
    assert record(folder)["epoch"] == following.epoch


@pytest.mark.parametrize("uses", [0, 1, 2, 3])
@pytest.mark.parametrize("write", [0, 1, 2])
@pytest.mark.parametrize("written", [0, 1, 30, 63])
def test_the_number_never_goes_back_wherever_a_write_is_torn_even_with_a_clock_that_does(
    tmp_path, monkeypatch, uses, write, written
):
    monkeypatch.setattr(file_lease, "next_epoch", lambda last=0: last + 1)
    told = 0
    for _ in range(uses):
        lease = take(tmp_path, NAME, owner={})
        told = lease.epoch
        lease.release()
    left = [write]

    def write_some(descriptor, data, offset, whole=lease_file._write):
        if not left[0]:
            whole(descriptor, data[:written] + b"\0" * (len(data) - written), offset)
            raise OSError(errno.EIO, "power cut")
        left[0] -= 1
        whole(descriptor, data, offset)

    with monkeypatch.context() as cut:
        cut.setattr(lease_file, "_write", write_some)
        with suppress(StoreWriteError):  # then it was not told its number
            told = take(tmp_path, NAME, owner={}).epoch
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / NAME).write_bytes((tmp_path / NAME).read_bytes())  # nobody holds it after a power cut
    assert take(tmp_path / "copy", NAME, owner={}).epoch > told


def test_a_number_whose_owner_was_told_it_is_on_the_disk_before(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("ctxkit.offload.locks.lease_file.sync_file", lambda fd: synced.append(os.pread(fd, 4096, 0)))
    lease = take(tmp_path, NAME, owner={})
    assert str(lease.epoch).encode() in synced[-1].partition(b'"fence"')[2]


def test_the_number_grows_where_the_file_was_lost(tmp_path):
    first = take(tmp_path, NAME, owner={})
    first.release()
    (tmp_path / NAME).unlink()
    assert take(tmp_path, NAME, owner={}).epoch >= first.epoch


def test_a_file_that_is_removed_under_its_owner_is_no_lock_any_more(tmp_path):
    first = take(tmp_path, NAME, owner={})
    (tmp_path / NAME).unlink()
    second = take(tmp_path, NAME, owner={})
    assert (first.check(), first.is_lost, second.check()) == (False, True, True)


def test_a_file_that_cannot_be_written_is_a_store_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lease, "write_epoch", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(StoreWriteError, match=rf"{NAME}.*ENOSPC"):
        take(tmp_path, NAME, owner={})
    monkeypatch.undo()
    take(tmp_path, NAME, owner={}).release()  # nothing was left locked


@posix
@pytest.mark.crash
def test_a_killed_owner_leaves_nothing_locked_and_its_death_is_told(tmp_path, other, caplog):
    process, epoch = other
    process.kill()
    process.wait()
    with caplog.at_level(logging.WARNING, "ctxkit"):
        lease = take(tmp_path, NAME, owner={})
    assert lease.epoch > epoch
    assert f"pid {process.pid} on host" in caplog.text
    assert "which has died" in caplog.text


@posix
@pytest.mark.crash
def test_an_owner_that_is_stopped_keeps_the_lease_and_is_named(tmp_path, other):
    process, _ = other
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(SessionLockedError, match=f"pid {process.pid} .*'the other process'"):
        take(tmp_path, NAME, owner={}, timeout_s=0.1)
    process.send_signal(signal.SIGCONT)
    process.communicate("", timeout=30)
    take(tmp_path, NAME, owner={}, timeout_s=10).release()


@posix
def test_eight_processes_are_never_inside_at_the_same_time(tmp_path):
    others = [start(tmp_path, NAME, 50) for _ in range(8)]
    results = [process.communicate(timeout=120)[0] for process in others]
    assert [process.returncode for process in others] == [0] * 8
    epochs = [int(line) for result in results for line in result.split()]
    assert len(set(epochs)) == 400


@posix
@forks
def test_a_forked_child_neither_holds_nor_releases_the_lease_and_does_not_keep_it_locked(tmp_path, way):
    lease = take(tmp_path, NAME, owner={})
    go_on, say = os.pipe()
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(say)
        lost = lease.is_lost and not lease.check()
        lease.release()
        taken = isinstance(try_take(tmp_path, NAME, owner={}), FileLease)
        os.write(tell, b"x")
        os.read(go_on, 1)  # lives on while its parent lets go
        os._exit(0 if lost and not taken else 1)
    os.close(go_on)
    os.read(hear, 1)
    assert lease.check()
    lease.release()
    take(tmp_path, NAME, owner={}, timeout_s=5).release()
    for descriptor in (say, hear, tell):
        os.close(descriptor)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def dead_child() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


@posix
def test_the_marker_of_a_dead_owner_is_taken_over_by_one_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(KernelLock, "try_take", lambda self: (_ for _ in ()).throw(OSError(errno.ENOSYS, "none")))
    crashed = take(tmp_path, NAME, owner={})
    marker = tmp_path / f"{NAME}.{crashed.epoch}"
    dead = replace(crashed.holder, pid=dead_child())
    marker.write_bytes(json.dumps(dead.to_json()).encode())
    lease = take(tmp_path, NAME, owner={})
    assert lease.epoch == crashed.epoch + 1
    assert not marker.exists()
    assert isinstance(try_take(tmp_path, NAME, owner={}), Holder)
    lease.release()


def test_two_who_find_the_same_dead_owner_do_not_both_take_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(KernelLock, "try_take", lambda self: (_ for _ in ()).throw(OSError(errno.ENOSYS, "none")))
    looked = []

    def look_and_be_overtaken(directory, marker, look=marker_lock._look):
        found = look(directory, marker)
        if not looked:
            looked.append(marker)
            take(tmp_path, NAME, owner={"by": "the faster one"}).release()
        return found

    monkeypatch.setattr(marker_lock, "_look", look_and_be_overtaken)
    assert not isinstance(try_take(tmp_path, NAME, owner={}), FileLease)
    assert isinstance(try_take(tmp_path, NAME, owner={}), FileLease)


def test_a_marker_on_another_machine_is_never_taken_for_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(KernelLock, "try_take", lambda self: (_ for _ in ()).throw(OSError(errno.ENOSYS, "none")))
    lease = take(tmp_path, NAME, owner={})
    elsewhere = replace(lease.holder, host="elsewhere", pid=dead_child())
    (tmp_path / f"{NAME}.{lease.epoch}").write_bytes(json.dumps(elsewhere.to_json()).encode())
    with pytest.raises(SessionLockedError, match="host 'elsewhere'"):
        take(tmp_path, NAME, owner={})


def test_a_reused_pid_is_not_the_owner():
    mine = Holder.here({})
    assert mine.is_alive() is True
    if mine.start_time is not None:
        assert replace(mine, start_time=0).is_alive() is False
    assert replace(mine, pid=dead_child()).is_alive() is False
    assert replace(mine, host="elsewhere").is_alive() is None
    assert replace(mine, pid=10**30).is_alive() is False


@pytest.mark.parametrize(
    "value", [None, [], {}, {"pid": "1"}, {"pid": 0, "host": "", "createdAt": 0}, "x", 3, {"pid": 1}]
)
def test_what_is_no_record_names_no_holder(value):
    assert Holder.from_json(value) is None


def test_a_record_reads_back_as_it_was_written():
    holder = replace(Holder.here({"agent": "scribe", "n": 3}, epoch=7), released_ms=9)
    assert Holder.from_json(json.loads(json.dumps(holder.to_json()))) == holder


def test_a_record_of_an_impossible_time_is_described_all_the_same():
    assert replace(Holder.here({}), created_ms=10**30).describe().endswith("ms")


@pytest.mark.asyncio
async def test_waiting_for_a_lease_leaves_the_event_loop_alone_and_ends_when_it_is_free(tmp_path):
    first = await asyncio.to_thread(take, tmp_path, NAME, owner={})
    waiting = asyncio.create_task(
        lease_when_free(lambda: try_take(tmp_path, NAME, owner={}), what="Session 's'", timeout_s=30)
    )
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.to_thread(first.release)
    second = await waiting
    lease: Lease = second
    assert isinstance(lease, ThreadedLease)
    assert lease.epoch > first.epoch
    await lease.renew()
    await lease.release()
    await lease.release()
    assert lease.is_lost
    with pytest.raises(SessionLockedError, match="not held any more"):
        await lease.renew()


@pytest.mark.asyncio
async def test_waiting_for_too_long_names_the_holder(tmp_path):
    await asyncio.to_thread(take, tmp_path, NAME, owner={"agent": "scribe"})
    with pytest.raises(SessionLockedError, match=r"Session 's' is held by pid .* agent 'scribe'"):
        await lease_when_free(lambda: try_take(tmp_path, NAME, owner={}), what="Session 's'", timeout_s=0)


@pytest.mark.asyncio
@pytest.mark.parametrize("turns", range(8))
async def test_whoever_is_cancelled_while_a_lease_is_taken_leaves_nothing_locked(tmp_path, turns):
    task = asyncio.create_task(
        lease_when_free(lambda: try_take(tmp_path, NAME, owner={}), what="Session 's'", timeout_s=30)
    )
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        await task.result().release()
    (await asyncio.to_thread(take, tmp_path, NAME, owner={}, timeout_s=10)).release()


@pytest.mark.asyncio
async def test_a_lease_that_comes_when_nobody_waits_any_more_is_released(tmp_path):
    started, go = threading.Event(), threading.Event()

    def slow():
        started.set()
        go.wait(30)
        return try_take(tmp_path, NAME, owner={})

    task = asyncio.create_task(lease_when_free(slow, what="Session 's'", timeout_s=30))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(go.set)
    (await asyncio.to_thread(take, tmp_path, NAME, owner={}, timeout_s=10)).release()


@pytest.mark.asyncio
async def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreWriteError, match=r"Session 's' could not be taken \((ENOTDIR|EEXIST|ENOENT)"):
        await lease_when_free(
            lambda: try_take(tmp_path / "file" / "x", NAME, owner={}), what="Session 's'", timeout_s=0
        )


def test_asking_who_holds_it_makes_no_file(tmp_path):
    assert holder_of(tmp_path / "nowhere", NAME) is None
    assert holder_of(tmp_path, NAME) is None
    assert list(tmp_path.iterdir()) == []
