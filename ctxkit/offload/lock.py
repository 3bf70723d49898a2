"""One writer of a session at a time, across threads and processes, by a lock that the kernel frees when its owner dies."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ctxkit.offload.directory import Directory

LOCK_NAME: Final = ".lock"

_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02


@contextmanager
def locked(folder: Directory, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a directory; blocks, so call it in a thread.

    The lock is on an open file, not a file with an owner's id in it: that one goes stale when its owner is killed.

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
    descriptor = folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        _wait(descriptor, folder, timeout_s)
        if os.fstat(descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "was removed", str(folder.path))
        yield
    finally:
        os.close(descriptor)  # lets go of the lock too


def _wait(descriptor: int, folder: Directory, timeout_s: float) -> None:
    import fcntl  # noqa: PLC0415 - not on Windows

    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                msg = f"another writer has held the session for {timeout_s:g} s"
                raise TimeoutError(errno.ETIMEDOUT, msg, str(folder.path)) from None
        else:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
