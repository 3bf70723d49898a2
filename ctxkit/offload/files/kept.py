"""What is kept open of a session between two writes: its directory, its lock, and the segment that is written.

Opening them anew cost more than the write itself. A kept descriptor may have become that of a file which was deleted,
moved or replaced meanwhile, so each write asks first. None is shared with a forked child: a lock that both have open
would be held by both.
"""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Final, Protocol
from weakref import WeakSet

from ctxkit.offload.directory import Directory
from ctxkit.offload.locks.lock import LOCK_NAME

_ALL: Final["WeakSet[KeptFolder]"] = WeakSet()


class OpenFolder(Protocol):
    """Opens the directory of a session."""

    def __call__(self, *, create: bool) -> AbstractContextManager[Directory]:
        """Open it; with `create` make it where it is not, else raise `FileNotFoundError`."""
        ...


class KeptFolder:
    """The open directory of a session with its lock, and at most one file of it.

    Args:
        open_folder: Opens the directory.
    """

    def __init__(self, open_folder: OpenFolder) -> None:
        self._held = False
        self._file: tuple[int, tuple[int, int]] | None = None
        with ExitStack() as opened:
            self.folder = opened.enter_context(open_folder(create=True))
            if sys.platform == "win32":
                import filelock  # noqa: PLC0415 - needed on Windows only

                self._filelock = filelock.FileLock(self.folder.path / LOCK_NAME, timeout=0)
            else:
                self._lock = self.folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
                opened.callback(self._close_lock)
                status = os.fstat(self._lock)
                self._inode = (status.st_dev, status.st_ino)
            self._opened = opened.pop_all()
        _ALL.add(self)

    def try_lock(self) -> bool:
        """Take the lock if nobody else has it."""
        if sys.platform == "win32":
            import filelock  # noqa: PLC0415 - needed on Windows only

            try:
                self._filelock.acquire()
            except filelock.Timeout:
                return False
        else:
            import fcntl  # noqa: PLC0415 - not on Windows

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        self._held = True
        return True

    def unlock(self) -> None:
        """Let go of the lock."""
        if sys.platform == "win32":
            self._filelock.release()
        else:
            import fcntl  # noqa: PLC0415 - not on Windows

            # Not by closing alone: a child that was forked meanwhile may have it open too.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._held = False

    def is_current(self) -> bool:
        """Tell whether the directory still stands where it was opened, and was not deleted or moved."""
        if sys.platform == "win32":
            return True  # what is open cannot be removed there
        try:
            status = (self.folder.path / LOCK_NAME).stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self._inode == (status.st_dev, status.st_ino)

    def file(self, open_file: Callable[[Directory], int], wanted: tuple[int, int] | None) -> int:
        """Return the descriptor of the kept file; another one than is wanted (device and inode) is opened first."""
        if self._file is None or self._file[1] != wanted:
            self._close_file()
            descriptor = open_file(self.folder)
            try:
                status = os.fstat(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            self._file = descriptor, (status.st_dev, status.st_ino)
        return self._file[0]

    def close(self) -> None:
        """Let go of all of it; what was to reach the disk has been synced before, so nothing is said of errors."""
        with suppress(OSError):
            self._close_file()
        with suppress(OSError):
            is_held, self._held = self._held, False  # also where that fails: what is closed is tried only once
            if is_held:
                self.unlock()
        with suppress(OSError):
            self._opened.close()

    def _close_file(self) -> None:
        if self._file is not None:
            descriptor, self._file = self._file[0], None
            os.close(descriptor)

    def _close_lock(self) -> None:
        descriptor, self._lock = self._lock, -1
        os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_opened"):
            self.close()


def _close_all_in_child() -> None:
    for kept in list(_ALL):
        kept._held = False  # noqa: SLF001 - this module's own; unlocking here would unlock the parent's
        kept.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all_in_child)
