"""Mends the file of a log under its lock: a torn end is cut off, a bad line is blanked, and both are copied aside first.

A log is never rewritten: other writers have it open, and readers know where its lines stand.
"""

import os
from collections.abc import Iterable
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ctxkit.offload import lines
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all, write_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.offload.files.log_index import Damage

_CHUNK_BYTES: Final = 1 << 20


def complete_line(descriptor: int, end: int) -> bytes:
    """Give a last line its line break, if that is all that it lacks.

    Args:
        descriptor: Where the file is open for appending.
        end: Byte behind its last line break.

    Returns:
        The line; empty where there is none, or a torn one.
    """
    tail = _read(descriptor, end, None)
    line = lines.examine(tail)
    if line is None or (line.number is None and len(tail) > lines.FOREIGN_BYTES):
        return b""
    write_all(descriptor, b"\n")
    return tail


def cut_off(folder: Directory, name: str, descriptor: int, start: int) -> None:
    """Cut off what stands behind a byte, after it was copied aside."""
    torn = _read(descriptor, start, None)
    if torn:
        folder.publish(_aside(name, "torn", start, torn), torn)
        os.ftruncate(descriptor, start)


def blank(folder: Directory, damaged: Iterable["Damage"]) -> None:
    """Overwrite bad lines with spaces after they were copied aside; the file is for the caller to sync."""
    for segment, offset, size in damaged:
        with _writable(folder, segment) as descriptor:
            found = _read(descriptor, offset, size)
            folder.publish(_aside(segment, "bad", offset, found), found)
            for at in range(0, size, _CHUNK_BYTES):
                write_at(descriptor, b" " * min(_CHUNK_BYTES, size - at), offset + at)


def write_again(folder: Directory, name: str, start: int) -> None:
    """Write what stands behind a byte once more, as it is.

    After a failed sync the kernel may call pages clean that never reached the disk, and the next sync would say nothing
    of them.
    """
    with _writable(folder, name) as descriptor:
        at = start
        while chunk := read_at(descriptor, _CHUNK_BYTES, at):
            write_at(descriptor, chunk, at)
            at += len(chunk)
        sync_file(descriptor)


@contextmanager
def _writable(folder: Directory, name: str) -> "Iterator[int]":
    # Not for appending: Linux would then append whatever the offset.
    descriptor = folder.open(name, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int, start: int, size: int | None) -> bytes:
    found = bytearray()
    while size is None or len(found) < size:
        wanted = _CHUNK_BYTES if size is None else min(_CHUNK_BYTES, size - len(found))
        chunk = read_at(descriptor, wanted, start + len(found))
        if not chunk:
            break
        found += chunk
    return bytes(found)


def _aside(name: str, why: str, offset: int, content: bytes) -> str:
    return f"{name}.{why}-{offset}-{blake2b(content, digest_size=4).hexdigest()}"
