"""Blobs on files: each appears whole under a name of its own, and the same content under the same name is there once."""

import errno
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from hashlib import sha256
from typing import Final

from ctxkit.errors import StoreWriteError
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all

_NAME: Final = re.compile(r"(?!context[.-])[A-Za-z0-9](?:[A-Za-z0-9._~-]{0,238}[A-Za-z0-9])?")
_MOST_CHARS: Final = 200
"""Of a name that is asked for; a hash may come to it."""
_CHUNK_BYTES: Final = 1 << 20
NO_FILE: Final = frozenset({errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EISDIR, errno.EMLINK})
"""What opening a planted link, pipe or directory gives."""


def is_blob_name(name: str) -> bool:
    """Tell whether a file may be a blob: those of the log and of what stands beside it have other names."""
    return _NAME.fullmatch(name) is not None


def check_blob_name(name: str) -> None:
    """Refuse a name that no blob may have.

    Raises:
        StoreWriteError: It is one.
    """
    if not is_blob_name(name) or len(name) > _MOST_CHARS:
        msg = (
            f"{name[:250]!r} is no name for a blob: give at most 200 letters, digits, '.', '_', '~' and '-', starting and "
            f"ending with a letter or digit, not starting with 'context.' or 'context-'."
        )
        raise StoreWriteError(msg)


def store_blob(
    folder: Directory,
    name: str,
    data: bytes,
    *,
    allowed: Callable[[Directory], AbstractContextManager[None]] = lambda _: nullcontext(),
    reserve: Callable[[int], None] = lambda _: None,
    is_synced: bool = True,
) -> str:
    """Store a blob that is in memory and return the name that it has; one that is there is not written again.

    Args:
        folder: Its directory.
        name: The name that is asked for.
        data: The content.
        allowed: See `Draft.publish`.
        reserve: See `Draft`.
        is_synced: See `Draft`.
    """
    free, there = free_name(folder, name, len(data), sha256(data).hexdigest())
    if there:
        with allowed(folder):
            folder.sync()  # whoever put it may have been killed before that
        return free
    draft = Draft(lambda: nullcontext(folder), reserve=reserve, is_synced=is_synced)
    try:
        draft.write(data)
        return draft.publish(name, allowed)
    finally:
        draft.discard()


def names_for(name: str, digest: str) -> Sequence[str]:
    """Return the names that a content with this SHA-256 may have, in the order in which they are tried."""
    stem, dot, ending = name.rpartition(".")
    return [
        f"{stem}{extra}{dot}{ending}" if dot else f"{name}{extra}"
        for extra in ("", f"-{digest[:8]}", f"-{digest[:32]}")
    ]


def free_name(folder: Directory, name: str, size: int, digest: str) -> tuple[str, bool]:
    """Return the first name that is free or has this very content, and whether it has.

    Args:
        folder: Where.
        name: The name that was asked for.
        size: Bytes of the content.
        digest: SHA-256 of the content in hexadecimal.
    """
    for candidate in names_for(name, digest):
        there = _holds(folder, candidate, size, digest)
        if there is not None:
            return candidate, there
    raise OSError(errno.EEXIST, "all names for this content are taken by something else", str(folder.path))


class Draft:
    """A blob that is being written, until it is published or discarded, from any threads.

    Args:
        open_folder: Opens its directory at the first write.
        reserve: Called with the bytes that are about to be written, and with what is to be given back as a negative
            number; what it raises is raised.
        is_synced: Whether the content is to reach the disk before the name.
    """

    def __init__(
        self,
        open_folder: Callable[[], AbstractContextManager[Directory]],
        *,
        reserve: Callable[[int], None] = lambda _: None,
        is_synced: bool = True,
    ) -> None:
        self._open_folder = open_folder
        self._reserve = reserve
        self._is_synced = is_synced
        self._guard = threading.Lock()
        self._opened = ExitStack()
        self._folder: Directory | None = None
        self._temporary = ""
        self._descriptor = -1
        self._is_over = False
        self._hash = sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write what comes next."""
        with self._guard:
            self._open()
            self._reserve(len(data))
            self._size += len(data)
            write_all(self._descriptor, data)
            self._hash.update(data)

    def publish(
        self, name: str, allowed: Callable[[Directory], AbstractContextManager[None]] = lambda _: nullcontext()
    ) -> str:
        """Make it appear and return its name: another one than was asked for where that has other content.

        Args:
            name: The name that is asked for.
            allowed: Entered round the moment at which it appears; what it raises keeps it away.
        """
        with self._guard:
            folder = self._open()
            if self._is_synced:
                sync_file(self._descriptor)
            digest = self._hash.hexdigest()
            with allowed(folder):
                while True:
                    free, there = free_name(folder, name, self._size, digest)
                    if there:
                        folder.sync()  # whoever put it may have been killed before that
                        return free
                    if folder.link(self._temporary, free):
                        self._size = 0  # what is reserved is used
                        return free

    def discard(self) -> None:
        """Remove what is left of it; nothing can be written afterwards."""
        with self._guard:
            self._is_over = True
            with suppress(OSError):  # what counts was synced before
                self._opened.close()
            size, self._size = self._size, 0
            self._reserve(-size)

    def _open(self) -> Directory:
        if self._is_over:
            raise OSError(errno.ECANCELED, "was given up")
        if self._folder is None:
            with ExitStack() as opened:
                folder = opened.enter_context(self._open_folder())
                self._temporary, self._descriptor = folder.temporary()
                opened.callback(_unlink_quietly, folder, self._temporary)
                opened.callback(os.close, self._descriptor)
                self._opened, self._folder = opened.pop_all(), folder
        return self._folder


def _unlink_quietly(folder: Directory, name: str) -> None:
    with suppress(OSError):  # it is tidied away later
        folder.unlink(name)


def _holds(folder: Directory, name: str, size: int, digest: str) -> bool | None:
    """Return True where the file has this content, False where there is none, `None` where it is something else."""
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as exc:
        if exc.errno in NO_FILE:
            return None
        raise
    try:
        if os.fstat(descriptor).st_size != size:
            return None
        found, at = sha256(), 0
        while chunk := read_at(descriptor, _CHUNK_BYTES, at):
            found.update(chunk)
            at += len(chunk)
        return True if found.hexdigest() == digest else None
    finally:
        os.close(descriptor)
