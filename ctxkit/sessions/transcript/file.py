"""The file of a transcript: a header, then one message of AgentScope a line, that only grows.

    {"type":"session","version":1,"id":"3f2a","timestamp":"2026-11-22T01:50:52.033Z"}
    {"name":"user","content":[{"type":"text","text":"Hello"}],"role":"user","id":"a1"}

Everything here blocks, and what writes is called under the lock of the directory.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

from ctxkit.errors import NewerFormatError
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all
from ctxkit.sessions.encoding import encode_piece
from ctxkit.sessions.transcript.history import merge_versions

VERSION: Final = 1
SUFFIX: Final = ".jsonl"

PREWARM_BYTES: Final = 4096
"""So much of a transcript is read when its session is loaded, as the seed has it; and so much tells it from another."""

_CHUNK_BYTES: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 24


def header_line(session_id: str, *, now: float) -> bytes:
    """Return the first line of a transcript."""
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    header = {"type": "session", "version": VERSION, "id": session_id, "timestamp": time}
    # ASCII, so that an id with a lone surrogate comes back as it was.
    return json.dumps(header, separators=(",", ":")).encode() + b"\n"


def read_header(folder: Directory, name: str) -> dict[str, Any] | None:
    """Return the header of a transcript; `None` where it has none that can be read.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
        FileNotFoundError: There is no such file.
    """
    descriptor = folder.open(name, os.O_RDONLY)
    try:
        start = read_at(descriptor, PREWARM_BYTES, 0)
        while (
            b"\n" not in start
            and len(start) < _LONGEST_HEADER
            and (more := read_at(descriptor, _CHUNK_BYTES, len(start)))
        ):
            start += more
    finally:
        os.close(descriptor)
    header = _parse(start.partition(b"\n")[0])
    if not isinstance(header, dict) or header.get("type") != "session":
        return None
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        msg = (
            f"The transcript {str(folder.path / name)!r} has format {version!r}, and this ctxkit knows formats up to "
            f"{VERSION}: a newer one wrote it. Update ctxkit; the file was not touched."
        )
        raise NewerFormatError(msg)
    return header


@dataclass(frozen=True)
class Mark:
    """A place in a transcript, and what stands before it, so that it is known again."""

    end: int
    """Bytes of the transcript up to there."""
    crc: int
    """CRC-32 of the last 4 KB of these."""


START: Final = Mark(0, 0)
"""Before all that a transcript has."""


def is_at(folder: Directory, name: str, mark: Mark) -> bool:
    """Return whether a transcript still has what stood before a place; a missing one has nothing."""
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return mark == START
    try:
        return os.fstat(descriptor).st_size >= mark.end and _mark(descriptor, mark.end) == mark
    finally:
        os.close(descriptor)


def append(folder: Directory, name: str, header: bytes, lines: Sequence[bytes]) -> Mark:
    """Append messages durably, all or none, and return the end of the file then.

    A file that is missing or empty gets the header first. What a killed writer left half done at the end is copied
    aside and cut off; a whole line without its line break gets it.

    Args:
        folder: The directory.
        name: Name of the file.
        header: What `header_line` returned.
        lines: The messages as JSON, without line breaks.
    """
    is_new = folder.status(name) is None
    descriptor = folder.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        _mend_tail(folder, name, descriptor)
        end = os.fstat(descriptor).st_size
        data = (header if end == 0 else b"") + b"".join(line + b"\n" for line in lines)
        try:
            write_all(descriptor, data)
            # Also without new lines: what a killed writer has left may not be on the disk yet.
            sync_file(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
        if is_new:
            folder.sync()
        return _mark(descriptor, end + len(data))
    finally:
        os.close(descriptor)


def read_lines(folder: Directory, name: str, *, start: int = 0) -> Iterator[Any]:
    """Yield what stands on each line from a byte on, `None` for a line that is no JSON; blank lines are passed over.

    A last line without its line break counts if it is whole. A missing file has none.
    """
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        rest = b""
        while chunk := read_at(descriptor, _CHUNK_BYTES, start):
            start += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (_parse(line) for line in lines if line.strip())
        if rest.strip():
            yield _parse(rest)
    finally:
        os.close(descriptor)


def read_messages(folder: Directory, name: str) -> tuple[list[dict[str, Any]], int]:
    """Return the messages of a transcript, each once and whole, in the order in which they came, and how many lines are broken."""
    found: dict[str, dict[str, Any]] = {}
    broken = 0
    for at, line in enumerate(read_lines(folder, name)):
        if isinstance(line, dict) and "role" in line:
            key = line["id"] if isinstance(line.get("id"), str) else f"line {at}"
            found[key] = merge_versions(found[key], line) if key in found else line
        elif not isinstance(line, dict) or line.get("type") != "session":
            broken += 1
    return list(found.values()), broken


def reset(folder: Directory, name: str, header: bytes, *, aside: str) -> Mark:
    """Make a transcript empty but for its header, and return its end; what it had stands in the file `aside` from now on."""
    folder.publish(aside, b"".join(encode_piece(line) + b"\n" for line in read_lines(folder, name) if line is not None))
    folder.replace(name, header)
    return Mark(len(header), crc32(header[-PREWARM_BYTES:]))


def _mend_tail(folder: Directory, name: str, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    tail, start = b"", size
    while start > 0 and b"\n" not in tail:
        start, length = max(0, start - _CHUNK_BYTES), min(start, _CHUNK_BYTES)
        tail = read_at(descriptor, length, start) + tail
    _, found, torn = tail.rpartition(b"\n")
    torn = torn if found else tail
    if not torn:
        return
    if isinstance(_parse(torn), dict):
        write_all(descriptor, b"\n")
        return
    at = size - len(torn)
    folder.publish(f"{name}.torn-{at}-{blake2b(torn, digest_size=4).hexdigest()}", torn)
    os.ftruncate(descriptor, at)


def _mark(descriptor: int, end: int) -> Mark:
    start = max(0, end - PREWARM_BYTES)
    return Mark(end, crc32(read_at(descriptor, end - start, start)))


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
