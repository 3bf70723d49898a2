"""Puts a file in the place of another one without losing a byte of it: the original and what was dropped stay beside it."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxkit.errors import StoreWriteError
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all

Piece = bytes | tuple[int, int]
"""Bytes, or a range (first byte, byte behind the last) of the original."""

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Where the original of a file stands, and what was dropped of it."""

    backup: Path
    dropped: Path | None


@contextmanager
def opened(folder: Directory, name: str) -> Iterator[int]:
    """Open a plain file for reading."""
    descriptor = folder.open(name, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def rewrite(
    folder: Directory, name: str, descriptor: int, pieces: Iterable[Piece], *, dropped: Iterable[Piece] = ()
) -> Kept:
    """Write a file anew, each step durable before the next: what is dropped, the original's copy, then the new file.

    Whenever the process or the machine dies, the file is the original or the new one, whole.

    Args:
        folder: The directory of the file.
        name: The file.
        descriptor: The original, open for reading.
        pieces: The new content.
        dropped: What is stored aside first.

    Raises:
        StoreWriteError: The file was changed meanwhile; the original stays.
    """
    before = os.fstat(descriptor)
    now = int(time.time() * 1000)
    aside = _write(folder, f"{name}.dropped-{now}", descriptor, dropped)
    backup = _write(folder, f"{name}.bak-{os.getpid()}-{now}", descriptor, [(0, before.st_size)], must_be=True)
    temporary, target = folder.temporary()
    try:
        _fill(target, descriptor, pieces)
        _check_unchanged(folder, name, before)
    except BaseException:
        folder.unlink(temporary)
        raise
    folder.rename(temporary, name)
    return Kept(backup=folder.path / str(backup), dropped=folder.path / aside if aside else None)


def _write(
    folder: Directory, name: str, descriptor: int, pieces: Iterable[Piece], *, must_be: bool = False
) -> str | None:
    """Write a new file beside the original and return its name; `None` where there is nothing to write."""
    found = list(pieces)
    if not found and not must_be:
        return None
    temporary, target = folder.temporary()
    try:
        _fill(target, descriptor, found)
        free, number = name, 1
        while not folder.link(temporary, free):
            number += 1
            free = f"{name}-{number}"
    finally:
        folder.unlink(temporary)
    return free


def _fill(target: int, descriptor: int, pieces: Iterable[Piece]) -> None:
    try:
        for piece in pieces:
            if isinstance(piece, bytes):
                write_all(target, piece)
            else:
                _copy(target, descriptor, *piece)
        sync_file(target)
    finally:
        os.close(target)


def _copy(target: int, descriptor: int, start: int, end: int) -> None:
    while start < end:
        chunk = read_at(descriptor, min(_CHUNK_BYTES, end - start), start)
        if not chunk:
            return
        write_all(target, chunk)
        start += len(chunk)


def _check_unchanged(folder: Directory, name: str, before: os.stat_result) -> None:
    after = folder.status(name)
    if after is None or _identity(after) != _identity(before):
        msg = f"{str(folder.path / name)!r} was changed while it was repaired: stop who writes it, then call again."
        raise StoreWriteError(msg)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
