"""One writer of a session at a time, across threads and processes, by a lock that the kernel frees when its owner dies."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctxkit.offload.directory import Directory

LOCK_NAME: Final = ".lock"

_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02

_descriptors: Final[set[int]] = set()
"""Every descriptor of this process that may have a lock."""


class KernelLock:
    """The kernel's lock on one open file, to be taken and let go any number of times.

    The lock is on an open file, not a file with an owner's id in it: that one goes stale when its owner is killed.
    Two descriptors of one file exclude each other within a process as well. A forked child would share the lock with
    its parent and keep it when the parent dies, so a child closes its copies at once and holds nothing.

    Args:
        descriptor: The open file; it belongs to this object from now on.
        path: Where the file or its directory is, for messages.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._open = [descriptor]
        _descriptors.add(descriptor)

    @property
    def descriptor(self) -> int:
        """The open file.

        Raises:
            OSError: It was closed, or belongs to the process from which this one was forked.
        """
        if not self._open or self._pid != os.getpid():
            raise OSError(errno.EBADF, "the lock is closed", str(self.path))
        return self._open[0]

    @property
    def is_unlinked(self) -> bool:
        """Whether the file was removed, so that others lock another one."""
        return os.fstat(self.descriptor).st_nlink == 0

    def try_take(self) -> bool:
        """Take the lock if it is free, and return whether it is held now.

        Raises:
            OSError: The file system has no such locks, or the descriptor is closed.
        """
        import fcntl  # noqa: PLC0415 - not on Windows

        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def take(self, *, timeout_s: float) -> None:
        """Wait for the lock; blocks, so call it in a thread.

        Raises:
            TimeoutError: Another owner held it all the time.
            OSError: The file system has no such locks, or the descriptor is closed.
        """
        deadline = time.monotonic() + timeout_s
        pause = _FIRST_PAUSE_S
        while not self.try_take():
            if time.monotonic() > deadline:
                msg = f"another writer has held the session for {timeout_s:g} s"
                raise TimeoutError(errno.ETIMEDOUT, msg, str(self.path))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def let_go(self) -> None:
        """Let go of the lock and keep the file open; does nothing where it is not held."""
        _unlock(self.descriptor)

    def close(self) -> None:
        """Let go of the lock and close the file; a second time, or in a forked child, does nothing."""
        try:
            descriptor = self._open.pop()  # one step, so that a signal's handler and a thread never close it twice
        except IndexError:
            return
        if self._pid == os.getpid():
            # Closing alone would leave it locked while a child has a copy that it has not closed yet.
            _unlock(descriptor)
            _descriptors.discard(descriptor)
            os.close(descriptor)


@contextmanager
def locked(folder: Directory, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a directory; blocks, so call it in a thread.

    Args:
        folder: The directory that is locked.
        timeout_s: Seconds to wait for another owner at most.

    Raises:
        TimeoutError: Another owner held it all the time.
        FileNotFoundError: The directory was removed meanwhile.
    """
    if sys.platform == "win32":
        import filelock  # noqa: PLC0415 - needed on Windows only

        with filelock.FileLock(folder.path / LOCK_NAME, timeout=timeout_s):
            yield
        return
    lock = KernelLock(folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT), folder.path)
    try:
        lock.take(timeout_s=timeout_s)
        if lock.is_unlinked:
            raise FileNotFoundError(errno.ENOENT, "was removed", str(folder.path))
        yield
    finally:
        lock.close()


def _unlock(descriptor: int) -> None:
    if sys.platform == "win32":
        return  # what is locked there is another file
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        return  # a file system without locks has nothing to let go of


def _close_copies() -> None:
    """Close in a forked child what its parent has locked; the parent keeps its locks."""
    for descriptor in tuple(_descriptors):
        try:
            os.close(descriptor)
        except OSError:
            continue  # closed before the fork, in a thread that had not said so yet
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)
