"""Records what a store asks of the file system, so that every moment of it can be lived through again."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Named:
    """A name in a directory stands for another file from now on, or for none."""

    folder: int
    name: str
    node: int | None
    is_folder: bool = False


@dataclass(frozen=True)
class Written:
    """Bytes were written to a file."""

    node: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Cut:
    """A file was cut, or grew by a hole."""

    node: int
    size: int


@dataclass(frozen=True)
class Synced:
    """All of a file, or all names of a directory, are on the disk now."""

    node: int


@dataclass(frozen=True)
class SyncFailed:
    """The disk refused: the kernel calls clean what it could not write, and never writes it by itself again."""

    node: int


@dataclass(frozen=True)
class Said:
    """The store has said that something is stored."""

    word: str


Step = Named | Written | Cut | Synced | SyncFailed | Said

CALLS = ("open", "write", "pwrite", "ftruncate", "fdatasync", "fsync", "link", "unlink", "replace", "mkdir")


class Recorder:
    """Stands between a store and the system calls that change something, below one directory.

    Args:
        disk: The directory: what is in it when recording begins is on the disk.
    """

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.root = disk.stat().st_ino
        self.trace: list[Step] = []
        self.folders = {self.root}
        """Which nodes are directories."""
        self._nodes = {self.root}
        self._guard = threading.RLock()
        self._steps_to_live: int | None = None
        self._is_lasting = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of the threads that stores have; those of the test's own thread are left alone."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._between(getattr(os, name), getattr(self, f"_{name}")))
            yield

    def told(self, word: str) -> None:
        """Note what the store has said is stored."""
        with self._guard:
            self.trace.append(Said(word))

    def fail_after(self, steps: int | None, *, lasting: bool = False) -> None:
        """Let a call fail after so many others, and all that follow if it is to last: that is how a process dies."""
        with self._guard:
            self._steps_to_live, self._is_lasting = steps, lasting

    def _between(self, real: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                return real(*args, **kwargs)
            with self._guard:
                return record(real, *args, **kwargs)

        return call

    def _is_failing(self) -> bool:
        if self._steps_to_live is None:
            return False
        self._steps_to_live -= 1
        return self._steps_to_live == 0 or (self._is_lasting and self._steps_to_live < 0)

    def _refuse(self) -> None:
        if self._is_failing():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _folder(self, path: str | os.PathLike[str], descriptor: int | None) -> tuple[int, str]:
        at = Path(path)
        if descriptor is not None and not at.is_absolute():
            return os.fstat(descriptor).st_ino, str(path)
        return at.parent.stat().st_ino, at.name

    def _name(self, folder: int, name: str, node: int | None, *, is_folder: bool = False) -> None:
        if folder in self._nodes:
            if node is not None:
                self._nodes.add(node)
                self.folders |= {node} if is_folder else set()
            self.trace.append(Named(folder, name, node, is_folder))

    def _open(self, real, path, flags, mode=0o777, *, dir_fd=None):
        if not flags & os.O_CREAT:
            if self._is_lasting:
                self._refuse()
            return real(path, flags, mode, dir_fd=dir_fd)
        self._refuse()
        try:
            os.stat(path, dir_fd=dir_fd)
        except FileNotFoundError:
            descriptor = real(path, flags, mode, dir_fd=dir_fd)
            self._name(*self._folder(path, dir_fd), os.fstat(descriptor).st_ino)
            return descriptor
        return real(path, flags, mode, dir_fd=dir_fd)

    def _mkdir(self, real, path, mode=0o777, *, dir_fd=None):
        self._refuse()
        real(path, mode, dir_fd=dir_fd)
        self._name(*self._folder(path, dir_fd), os.stat(path, dir_fd=dir_fd).st_ino, is_folder=True)

    def _write(self, real, descriptor, data):
        status = os.fstat(descriptor)
        if status.st_ino not in self._nodes:
            return real(descriptor, data)
        is_failing = self._is_failing()
        part = bytes(data)[: len(data) // 3] if is_failing else bytes(data)
        is_appended = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        offset = status.st_size if is_appended else os.lseek(descriptor, 0, os.SEEK_CUR)
        written = real(descriptor, part)
        self.trace.append(Written(status.st_ino, offset, part[:written]))
        if is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return written

    def _pwrite(self, real, descriptor, data, offset):
        self._refuse()
        written = real(descriptor, data, offset)
        self.trace.append(Written(os.fstat(descriptor).st_ino, offset, bytes(data)[:written]))
        return written

    def _ftruncate(self, real, descriptor, size):
        self._refuse()
        real(descriptor, size)
        self.trace.append(Cut(os.fstat(descriptor).st_ino, size))

    def _fdatasync(self, real, descriptor):
        if os.fstat(descriptor).st_ino not in self._nodes:
            real(descriptor)
            return
        if self._is_failing():
            if not self._is_lasting:  # who dies in a sync has not seen the disk fail
                self.trace.append(SyncFailed(os.fstat(descriptor).st_ino))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.trace.append(Synced(os.fstat(descriptor).st_ino))

    _fsync = _fdatasync

    def _link(self, real, source, target, *, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=True):
        self._refuse()
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        self._name(*self._folder(target, dst_dir_fd), os.stat(target, dir_fd=dst_dir_fd).st_ino)

    def _replace(self, real, source, target, *, src_dir_fd=None, dst_dir_fd=None):
        self._refuse()
        node = os.stat(source, dir_fd=src_dir_fd).st_ino
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._name(*self._folder(target, dst_dir_fd), node)
        self._name(*self._folder(source, src_dir_fd), None)

    def _unlink(self, real, path, *, dir_fd=None):
        self._refuse()
        real(path, dir_fd=dir_fd)
        self._name(*self._folder(path, dir_fd), None)
