"""A directory held by its descriptor, so that no link planted on the way to it is followed.

The agent's own tools write in the same workspace, and a prompt may tell them to plant links: each component is opened
from its parent's descriptor and refuses links, and what is no plain file of one name is not opened. Where the system
has no such calls (Windows), names are joined to paths instead.
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

PRIVATE_DIR: Final = 0o700
PRIVATE_FILE: Final = 0o600
_OTHERS: Final = 0o077

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_PLAIN: Final = _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Open no link, wait for no pipe, pass nothing to children, change no byte."""

_TEMPORARY: Final = ".tmp-"
_STALE_S: Final = 3600.0
"""Temporary files of this age belong to nobody any more: a write takes seconds."""

_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def sync_file(descriptor: int) -> None:
    """Return when the data of a file has reached the disk."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - not on every system

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # its fsync stops at the disk's cache
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """Write all of the data, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[written:]


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of the data at an offset of a file that is not open for appending."""
    rest = memoryview(data)
    while rest:
        if hasattr(os, "pwrite"):
            written = os.pwrite(descriptor, rest, offset)
        else:
            os.lseek(descriptor, offset, os.SEEK_SET)
            written = os.write(descriptor, rest)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest, offset = rest[written:], offset + written


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Read at most `length` bytes from an offset; none at the end of the file."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, length, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # Windows; whoever appends does so by flag, not by position
    return os.read(descriptor, length)


class Directory:
    """An open directory; use it as a context manager.

    Args:
        path: Where it is, for messages and for systems without descriptors of directories.
        descriptor: Its descriptor; `None` on such systems.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._fd = descriptor

    @classmethod
    def at(cls, path: Path, *, create: bool) -> Self:
        """Open the directory at an absolute path; links in the path are followed, for its owner chose it.

        Raises:
            FileNotFoundError: It is not there and is not to be created.
        """
        if create and not path.is_dir():
            with Directory.at(path.parent, create=path.parent != path) as above:
                above._make(path.name)
        if not _BY_DESCRIPTOR:
            path.stat()
            return cls(path, None)
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def child(self, name: str, *, create: bool) -> "Directory":
        """Open a directory in this one, private to its owner.

        Raises:
            FileNotFoundError: It is not there and is not to be created.
            OSError: It is a link or no directory.
        """
        if create:
            self._make(name)
        path = self.path / name
        if self._fd is None:
            if path.is_symlink():
                raise OSError(errno.ELOOP, "is a link", str(path))
            path.stat()
            return Directory(path, None)
        found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        try:
            _tighten(found, PRIVATE_DIR)
        except BaseException:
            os.close(found)
            raise
        return Directory(path, found)

    def open(self, name: str, flags: int) -> int:
        """Open a plain file, private to its owner, and return its descriptor.

        Raises:
            OSError: It is a link, a pipe or a directory, or is to be written and has other names too (a hard link).
        """
        descriptor = os.open(self._name(name), flags | _PLAIN, PRIVATE_FILE, dir_fd=self._fd)
        try:
            _check_plain(os.fstat(descriptor), flags, self.path / name)
            _tighten(descriptor, PRIVATE_FILE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def look(self, name: str) -> int:
        """Open something for reading as it is, and return its descriptor; its mode stays, for it is somebody else's.

        Raises:
            OSError: It is a link, or cannot be read.
        """
        return os.open(self._name(name), os.O_RDONLY | _PLAIN, dir_fd=self._fd)

    def status(self, name: str) -> os.stat_result | None:
        """Return what a name stands for, links not followed; `None` where there is none."""
        try:
            return os.stat(self._name(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def temporary(self) -> tuple[str, int]:
        """Make a new file for `link` or `replace` and return its name and a descriptor to write to."""
        name = f"{_TEMPORARY}{uuid4().hex}"
        return name, self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def publish(self, name: str, data: bytes) -> bool:
        """Make a file appear whole, never over another one.

        Returns:
            False where the name is taken.
        """
        temporary = self._written(data)
        try:
            return self.link(temporary, name)
        finally:
            self.unlink(temporary)

    def replace(self, name: str, data: bytes) -> None:
        """Put a file whole in the place of another one, or of none."""
        self.rename(self._written(data), name)

    def rename(self, temporary: str, name: str) -> None:
        """Put a temporary file that has been synced in the place of another one, or of none; it goes where that fails."""
        try:
            os.replace(self._name(temporary), self._name(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self.unlink(temporary)
            raise
        self.sync()

    def link(self, temporary: str, name: str) -> bool:
        """Give a temporary file its name, durably and never over another one; the temporary name is for the caller to remove.

        Returns:
            False where the name is taken.
        """
        source, target = self._name(temporary), self._name(name)
        try:
            os.link(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd, follow_symlinks=False)
        except FileExistsError:
            return False
        except (NotImplementedError, OSError) as exc:
            if isinstance(exc, OSError) and exc.errno not in _NO_HARD_LINKS:
                raise
            # A file system without hard links: a rename, which on Windows refuses to replace by itself.
            if self.status(name) is not None:
                return False
            os.rename(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self.sync()
        return True

    def unlink(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        try:
            os.unlink(self._name(name), dir_fd=self._fd)
        except FileNotFoundError:
            return

    def move(self, name: str, to: "Directory") -> None:
        """Move a file to another directory of the same file system, in the place of one of its name; sync both afterwards."""
        os.replace(self._name(name), to._name(name), src_dir_fd=self._fd, dst_dir_fd=to._fd)  # noqa: SLF001 - this very class

    def names(self) -> Sequence[str]:
        """Return the names of all that is in this directory, in no order."""
        with os.scandir(self.path if self._fd is None else self._fd) as found:
            return [item.name for item in found]

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield name and status of each plain file that is not hidden."""
        with os.scandir(self.path if self._fd is None else self._fd) as found:
            for item in found:
                if not item.name.startswith("."):
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone since
                    if stat.S_ISREG(status.st_mode):
                        yield item.name, status

    def tidy(self) -> None:
        """Make the files of this directory private and remove what killed writers left half done."""
        for name in self.names():
            status = self.status(name)
            if status is None or not stat.S_ISREG(status.st_mode):
                continue  # another writer's temporary file, gone since
            if name.startswith(_TEMPORARY) and time.time() - status.st_mtime > _STALE_S:
                self.unlink(name)
            elif status.st_mode & _OTHERS and self._fd is not None and status.st_nlink == 1:
                with suppress(FileNotFoundError):
                    os.close(self.open(name, os.O_RDONLY))

    def remove_tree(self, name: str) -> None:
        """Remove a directory of this one with all that is in it; a link is removed, not followed."""
        import shutil  # noqa: PLC0415 - rarely needed, and slow to import

        try:
            status = os.stat(self._name(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(self._name(name), dir_fd=self._fd)
        else:
            self.unlink(name)
        self.sync()

    def sync(self) -> None:
        """Return when the names in this directory have reached the disk, where the system can tell."""
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the descriptor; the object is of no use afterwards."""
        descriptor, self._fd = self._fd, None
        if descriptor is not None:
            with suppress(OSError):  # nothing is written to it, so nothing that was done is undone by that
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _name(self, name: str) -> str:
        return name if self._fd is not None else str(self.path / name)

    def _make(self, name: str) -> None:
        try:
            os.mkdir(self._name(name), PRIVATE_DIR, dir_fd=self._fd)
        except FileExistsError:
            return
        try:
            self.sync()
        except BaseException:
            with suppress(OSError):
                os.rmdir(self._name(name), dir_fd=self._fd)  # who tries again is to make it again, and sync
            raise

    def _written(self, data: bytes) -> str:
        temporary, descriptor = self.temporary()
        try:
            try:
                write_all(descriptor, data)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            self.unlink(temporary)
            raise
        return temporary


def _check_plain(status: os.stat_result, flags: int, path: Path) -> None:
    shared = status.st_nlink > 1 and flags & (os.O_RDWR | os.O_WRONLY)
    if shared or not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is no plain file of one name", str(path))


def _tighten(descriptor: int, mode: int) -> None:
    """Take away what others may do; a file of another owner, or with another name elsewhere, stays as it is."""
    status = os.fstat(descriptor)
    if not hasattr(os, "fchmod") or not status.st_mode & _OTHERS:
        return
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return
    try:
        os.fchmod(descriptor, mode)
    except PermissionError:
        return
