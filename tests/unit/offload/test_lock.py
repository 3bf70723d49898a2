"""The kernel's lock on a directory: for one at a time, and for no forked child."""

import os
import threading

import pytest

from ctxkit.offload.directory import Directory
from ctxkit.offload.locks.lock import KernelLock, locked

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the kernel's locks and forks"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


@pytest.fixture
def folder(tmp_path):
    with Directory.at(tmp_path, create=False) as directory:
        yield directory


def is_free(folder):
    try:
        with locked(folder, timeout_s=0.0):
            return True
    except TimeoutError:
        return False


def test_a_locked_directory_is_not_locked_by_another_until_it_is_let_go(folder):
    with locked(folder, timeout_s=0.0):
        assert not is_free(folder)
    assert is_free(folder)


def test_whoever_waits_gets_it_when_it_is_let_go(folder):
    inside, seen = threading.Event(), []

    def wait():
        inside.set()
        with locked(folder, timeout_s=30):
            seen.append("in")

    with locked(folder, timeout_s=0.0):
        thread = threading.Thread(target=wait)
        thread.start()
        inside.wait()
        assert seen == []
    thread.join(30)
    assert seen == ["in"]


def test_an_error_inside_lets_it_go(folder):
    with pytest.raises(KeyError), locked(folder, timeout_s=0.0):
        raise KeyError
    assert is_free(folder)


def test_a_directory_that_was_removed_meanwhile_is_not_found(tmp_path, folder):
    with folder.child("s", create=True) as session:
        lock = KernelLock(session.open(".lock", os.O_RDWR | os.O_CREAT), session.path)
        (tmp_path / "s/.lock").unlink()
        assert lock.is_unlinked
        lock.close()
        (tmp_path / "s").rmdir()
        with pytest.raises(FileNotFoundError), locked(session, timeout_s=0.0):
            pass


def test_a_child_that_is_forked_while_it_is_locked_does_not_keep_it_locked(folder):
    go_on, say = os.pipe()
    with locked(folder, timeout_s=0.0):
        child = os.fork()
        if child == 0:
            os.close(say)
            os.read(go_on, 1)
            os._exit(0)
    os.close(go_on)
    assert is_free(folder)
    os.close(say)
    os.waitpid(child, 0)


@pytest.mark.crash
def test_a_child_that_lives_longer_than_a_killed_owner_does_not_keep_it_locked(folder):
    locked_now, say_locked = os.pipe()
    go_on, say = os.pipe()
    owner = os.fork()
    if owner == 0:
        with locked(folder, timeout_s=0.0):
            if os.fork() == 0:  # lives on when its parent is killed
                os.close(say)
                os.write(say_locked, b"x")
                os.read(go_on, 1)
                os._exit(0)
            os.read(go_on, 1)
        os._exit(0)
    os.read(locked_now, 1)
    os.kill(owner, 9)
    os.waitpid(owner, 0)
    assert is_free(folder)
    for descriptor in (locked_now, say_locked, go_on, say):
        os.close(descriptor)


def test_a_forked_child_cannot_use_its_parents_lock(folder):
    lock = KernelLock(folder.open(".lock", os.O_RDWR | os.O_CREAT), folder.path)
    assert lock.try_take()
    child = os.fork()
    if child == 0:
        try:
            lock.try_take()
        except OSError:
            lock.close()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_free(folder)
    lock.let_go()
    assert is_free(folder)
    assert lock.try_take()
    lock.close()
    lock.close()
    assert is_free(folder)
