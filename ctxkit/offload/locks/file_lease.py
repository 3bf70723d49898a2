"""A lease on a file: one owner at a time on this machine, by the kernel's lock, with a number that only grows.

The kernel frees the lock at the moment its owner dies, so nothing goes stale. The number, the epoch, is what stores
refuse a former owner by.
"""

import errno
import logging
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from ctxkit.errors import SessionLockedError, StoreWriteError
from ctxkit.offload.directory import Directory
from ctxkit.offload.locks.holder import Holder
from ctxkit.offload.locks.lease_file import read_epoch, read_holder, write_epoch, write_holder
from ctxkit.offload.locks.lock import KernelLock
from ctxkit.offload.locks.marker_lock import MarkerLock

logger = logging.getLogger("ctxkit.offload")

_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.05
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})
"""What a file system without locks answers."""


class _Guard(Protocol):
    """What keeps others out until it is closed."""

    def close(self) -> None: ...


class FileLease:
    """One owner's hold on a lease file, from `take` until `release` or the death of the process.

    Args:
        file: The open lease file.
        holder: Who holds it.
        guard: What keeps others out; the open file itself where the kernel locks it.
    """

    def __init__(self, file: KernelLock, holder: Holder, *, guard: _Guard) -> None:
        self.path = file.path
        self.holder = holder
        self._file = file
        self._guard = guard
        self._pid = os.getpid()
        self._held = [True]

    @property
    def epoch(self) -> int:
        """The owner's number, higher than that of all owners before it."""
        return self.holder.epoch

    @property
    def is_lost(self) -> bool:
        """Whether it is not held any more, or belongs to the process from which this one was forked."""
        return not self._held or self._pid != os.getpid()

    def check(self) -> bool:
        """Return whether it is held still: the file may have been removed with its session, and locked anew."""
        if self.is_lost:
            return False
        try:
            is_removed = self._file.is_unlinked
        except OSError:
            is_removed = True  # released in another thread meanwhile
        if is_removed:
            self.release()
        return not is_removed

    def release(self) -> None:
        """Let go; a second time, or in a forked child, does nothing. Safe in the handler of a signal."""
        try:
            self._held.pop()  # one step, so that only one caller goes on
        except IndexError:
            return
        if self._pid != os.getpid():
            return
        try:
            write_holder(self._file.descriptor, replace(self.holder, released_ms=time.time_ns() // 1_000_000))
        except OSError as exc:
            logger.warning("The record in %r could not be marked as released: %s", str(self.path), exc)
        for held in (self._guard, self._file):
            try:
                held.close()
            except OSError as exc:  # the kernel has let go all the same
                logger.warning("%r was closed with an error: %s", str(self.path), exc)


def take(
    folder: Directory | str | os.PathLike[str], name: str, *, owner: Mapping[str, str | int], timeout_s: float = 0.0
) -> FileLease:
    """Take the lease on a file, which is made where it is missing and never removed; blocks, so call it in a thread.

    Its epoch is above the last one that was recorded there, and not below the clock's milliseconds since 1970: so it
    also grows where the file is lost, or where the session is locked elsewhere from now on.

    Args:
        folder: The directory; made where a path is given.
        name: Name of the file.
        owner: What others are told of the owner: small, plain and no secret.
        timeout_s: Seconds to wait for another owner.

    Raises:
        SessionLockedError: Another owner held it all the time; the message names it.
        StoreWriteError: The file could not be opened, locked or written.
    """
    what = f"The lock {str((folder.path if isinstance(folder, Directory) else Path(folder)) / name)!r}"
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            found = try_take(folder, name, owner=owner)
        except OSError as exc:
            raise write_error(what, exc) from exc
        if isinstance(found, FileLease):
            return found
        if time.monotonic() >= deadline:
            raise held_error(what, found, waited_s=timeout_s)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def try_take(
    folder: Directory | str | os.PathLike[str], name: str, *, owner: Mapping[str, str | int]
) -> FileLease | Holder | None:
    """Take the lease on a file if it is free; otherwise return who holds it, as far as its record tells.

    Raises:
        OSError: The file could not be opened, locked or written.
    """
    if not isinstance(folder, Directory):
        with Directory.at(Path(folder).absolute(), create=True) as directory:
            return try_take(directory, name, owner=owner)
    while True:
        with ExitStack() as undo:
            file = KernelLock(folder.open(name, os.O_RDWR | os.O_CREAT), folder.path / name)
            undo.callback(file.close)
            guard, other = _exclude(folder, name, file, owner)
            if guard is None:
                return other or read_holder(file.descriptor)
            undo.callback(guard.close)
            if file.is_unlinked:
                continue  # removed while it was being locked: others lock another file
            holder = _record(folder, file, owner, guard)
            undo.pop_all()
            return FileLease(file, holder, guard=guard)


def holder_of(folder: str | os.PathLike[str], name: str) -> Holder | None:
    """Return who wrote the record of a lease file last; `None` where there is none that can be read."""
    try:
        with Directory.at(Path(folder).absolute(), create=False) as directory:
            file = KernelLock(directory.open(name, os.O_RDONLY), directory.path / name)
        try:
            return read_holder(file.descriptor)
        finally:
            file.close()
    except OSError:
        return None


def next_epoch(last: int = 0) -> int:
    """Return a number above the last one, and not below the clock's milliseconds since 1970."""
    return max(last + 1, time.time_ns() // 1_000_000)


def held_error(what: str, holder: Holder | None, *, waited_s: float) -> SessionLockedError:
    """Return the error that says who holds something; blocks where the system has no `/proc`."""
    if holder is not None and (holder.released_ms is not None or holder.is_alive() is False):
        holder = None  # the record is of the one before
    by = "an owner that has not written its name yet" if holder is None else holder.describe()
    msg = f"{what} is held by {by}; waited {waited_s:g} s: try again when it has ended, or end it."
    return SessionLockedError(msg, holder=None if holder is None else holder.to_json())


def write_error(what: str, exc: OSError) -> StoreWriteError:
    """Return the error that says why something could not be locked."""
    code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
    msg = f"{what} could not be taken ({code}: {exc.strerror or exc}): free space or check permissions, then try again."
    return StoreWriteError(msg)


def _exclude(
    folder: Directory, name: str, file: KernelLock, owner: Mapping[str, str | int]
) -> tuple[_Guard | None, Holder | None]:
    """Return what keeps others out, or nothing and who it is that holds it, as far as that is known."""
    if sys.platform == "win32":
        return _exclude_on_windows(folder.path / f"{name}.guard"), None
    try:
        return (file if file.try_take() else None), None
    except OSError as exc:
        if exc.errno not in _NO_LOCKS:
            raise
    found = MarkerLock.try_take(folder, name, Holder.here(owner), last_epoch=lambda: read_epoch(file.descriptor))
    return (found, None) if isinstance(found, MarkerLock) else (None, found)


def _exclude_on_windows(path: Path) -> _Guard | None:
    """Lock another file there: what is locked cannot be read, and the record is to be."""
    import filelock  # noqa: PLC0415 - needed on Windows only

    lock = filelock.FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        return None
    undo = ExitStack()
    undo.callback(lock.release)
    return undo


def _record(folder: Directory, file: KernelLock, owner: Mapping[str, str | int], guard: _Guard) -> Holder:
    """Write who holds the lease from now on, and its epoch."""
    before = read_holder(file.descriptor)
    if before is not None and before.released_ms is None and before.is_alive() is False:
        logger.warning("%r was left locked by %s, which has died; it is taken over.", str(file.path), before.describe())
    if isinstance(guard, MarkerLock):
        holder = guard.holder
    else:
        holder = Holder.here(owner, epoch=next_epoch(read_epoch(file.descriptor)))
    is_new = os.fstat(file.descriptor).st_size == 0
    write_holder(file.descriptor, holder)
    write_epoch(file.descriptor, holder.epoch)
    if is_new:
        folder.sync()
    if isinstance(guard, MarkerLock):
        guard.settle()
    return holder
