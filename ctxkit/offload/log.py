"""The log of one session: a file of lines that only ever grows, written by any number of threads and processes.

Everything here blocks and is meant for a thread. Nothing is held open between two calls, so that a session may be
deleted, a process forked, and ten thousand sessions used without running out of descriptors.
"""

import os
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from hashlib import blake2b
from threading import Lock
from typing import Final, Protocol

from ctxkit.offload import lines
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all
from ctxkit.offload.lock import locked
from ctxkit.offload.store import Record

LOG_NAME: Final = "context.jsonl"

_CHUNK_BYTES: Final = 1 << 20
_TRIES: Final = 3
"""How often a session that is deleted at the very moment of a write is made anew."""


class OpenFolder(Protocol):
    """Opens the directory of a session."""

    def __call__(self, *, create: bool) -> AbstractContextManager[Directory]:
        """Open it; with `create` make it where it is not, else raise `FileNotFoundError`."""
        ...


class LogIndex:
    """Where the records of one file stand and which keys they have, about 170 bytes a record.

    Args:
        file: Device and inode of the file that it is about.
    """

    def __init__(self, file: tuple[int, int] | None = None) -> None:
        self.file = file
        self.end = 0
        """Byte behind the last whole line that was read."""
        self._numbers = array("Q")
        self._offsets = array("Q")
        self._sizes = array("Q")
        self._digests: list[bytes] = []
        self._known: set[bytes] = set()

    @property
    def last(self) -> int:
        """The number of the last record; 0 where there is none."""
        return self._numbers[-1] if self._numbers else 0

    def knows(self, digest: bytes) -> bool:
        """Tell whether a record with the key of this digest is there."""
        return digest in self._known

    def after(self, number: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, offset and size of the records above a number."""
        for at in range(bisect_right(self._numbers, number), len(self._numbers)):
            yield self._numbers[at], self._offsets[at], self._sizes[at]

    def catch_up(self, descriptor: int) -> None:
        """Read the whole lines that have come since."""
        rest = bytearray()
        while chunk := read_at(descriptor, _CHUNK_BYTES, self.end + len(rest)):
            searched = len(rest)
            rest += chunk
            if (stop := rest.rfind(b"\n", searched)) < 0:
                continue
            for line in bytes(rest[:stop]).split(b"\n"):
                self.learn(line)
            del rest[: stop + 1]

    def learn(self, line: bytes) -> None:
        """Take in the next line (without its line break); damaged and blank ones are passed over."""
        found = lines.unseal(line)
        if found is not None:
            digest = key_digest(found.key) if found.key is not None else b""
            if not digest or digest not in self._known:
                number = found.number if found.number is not None and found.number > self.last else self.last + 1
                self._numbers.append(number)
                self._offsets.append(self.end)
                self._sizes.append(len(line))
                self._digests.append(digest)
                self._known.add(digest)
        self.end += len(line) + 1

    def rewind(self, end: int) -> None:
        """Forget what stands at or behind a byte."""
        while self._offsets and self._offsets[-1] >= end:
            for column in (self._numbers, self._offsets, self._sizes):
                column.pop()
            self._known.discard(self._digests.pop())
        self.end = min(self.end, end)


class SessionLog:
    """Appends to one session's log and lists it.

    Args:
        open_folder: Opens the session's directory.
        lock_timeout_s: Seconds to wait for another writer.
        settle: Called with the directory after the first write.
    """

    def __init__(self, open_folder: OpenFolder, *, lock_timeout_s: float, settle: Callable[[Directory], None]) -> None:
        self._open_folder = open_folder
        self._lock_timeout_s = lock_timeout_s
        self._settle = settle
        self._settled = False
        self._mutex = Lock()
        self._waiting: deque[tuple[Sequence[tuple[bytes, Record]], Future[None]]] = deque()
        self._index = LogIndex()
        self._sure_end = 0
        """Up to here the index was learnt under the lock: behind it another writer may still take back a failed write."""
        self._take_back: int | None = None
        """A failed write that could not be taken back yet begins here."""

    def submit(self, encoded: Sequence[tuple[bytes, Record]]) -> "Future[None]":
        """Queue records; a call of `flush` in a thread must follow. The future is done when they are durable."""
        done: Future[None] = Future()
        self._waiting.append((encoded, done))
        return done

    def flush(self) -> None:
        """Write all that is queued as one group: whoever comes first writes for all who wait behind it."""
        with self._mutex:
            group = []
            while self._waiting:
                encoded, done = self._waiting.popleft()
                if done.set_running_or_notify_cancel():
                    group.append((encoded, done))
            if not group:
                return
            try:
                self._commit([pair for encoded, _ in group for pair in encoded])
            except BaseException as exc:  # noqa: BLE001 - handed on to everyone who waits for the group
                for _, done in group:
                    done.set_exception(exc)
            else:
                for _, done in group:
                    done.set_result(None)

    def entries(self, after: int) -> list[tuple[int, int, int, lines.Line | None]]:
        """Return number, offset, size and trailer of the records above a number; an unknown session has none."""
        with self._mutex:
            try:
                with self._open_folder(create=False) as folder:
                    descriptor = folder.open(LOG_NAME, os.O_RDONLY)
            except FileNotFoundError:
                return []
            try:
                self._check_file(descriptor)
                self._index.catch_up(descriptor)
                found = []
                for number, offset, size in self._index.after(after):
                    start = max(0, size - lines.TRAILER_BYTES)
                    tail = read_at(descriptor, size - start, offset + start)
                    found.append((number, offset, size, lines.parse_trailer(tail)))
                return found
            finally:
                os.close(descriptor)

    def _commit(self, records: Sequence[tuple[bytes, Record]]) -> None:
        for attempt in range(_TRIES):
            try:
                with self._open_folder(create=True) as folder, locked(folder, timeout_s=self._lock_timeout_s):
                    descriptor, new = _open_log(folder)
                    try:
                        self._write(folder, descriptor, records)
                    finally:
                        os.close(descriptor)
                    if new or not self._settled:
                        folder.sync()
                        self._settle(folder)
                        self._settled = True
                return
            except FileNotFoundError:  # deleted by somebody at this very moment
                if attempt == _TRIES - 1:
                    raise

    def _write(self, folder: Directory, descriptor: int, records: Sequence[tuple[bytes, Record]]) -> None:
        if self._take_back is not None:
            os.ftruncate(descriptor, min(self._take_back, os.fstat(descriptor).st_size))
            self._take_back = None
        self._check_file(descriptor)
        self._index.rewind(self._sure_end)
        self._index.catch_up(descriptor)
        learnt = self._index.end > self._sure_end
        learnt |= _mend_tail(folder, descriptor, self._index)
        end = self._sure_end = self._index.end
        new = self._seal(records)
        try:
            write_all(descriptor, new)
            if new or learnt:
                # What others wrote may not be on the disk yet, if they were killed: it counts as stored from now on.
                sync_file(descriptor)
        except OSError:
            # After a failed sync the kernel may call the pages clean that it lost: what they held is never trusted.
            self._take_back = end
            os.ftruncate(descriptor, end)
            self._take_back = None
            raise
        for line in bytes(new).split(b"\n")[:-1]:
            self._index.learn(line)
        self._sure_end = self._index.end

    def _check_file(self, descriptor: int) -> None:
        """Begin anew where the file is another one, or shorter than what was read."""
        status = os.fstat(descriptor)
        if self._index.file != (status.st_dev, status.st_ino) or status.st_size < self._index.end:
            self._index = LogIndex((status.st_dev, status.st_ino))
            self._sure_end = 0

    def _seal(self, records: Sequence[tuple[bytes, Record]]) -> bytearray:
        data = bytearray()
        number = self._index.last
        fresh: set[bytes] = set()
        for body, record in records:
            digest = key_digest(record.key)
            if digest not in fresh and not self._index.knows(digest):
                fresh.add(digest)
                number += 1
                data += lines.seal(body, record, number)
        return data


def key_digest(key: str) -> bytes:
    """Return 128 bits that stand for a key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _open_log(folder: Directory) -> tuple[int, bool]:
    try:
        return folder.open(LOG_NAME, os.O_RDWR | os.O_APPEND), False
    except FileNotFoundError:
        return folder.open(LOG_NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT), True


def _mend_tail(folder: Directory, descriptor: int, index: LogIndex) -> bool:
    """Deal with a last line that has no line break: its writer was killed, or the machine died.

    A whole record gets its line break; a torn one is copied aside and cut off.

    Returns:
        Whether there was one.
    """
    size = os.fstat(descriptor).st_size
    if size <= index.end:
        return False
    tail = b""
    while chunk := read_at(descriptor, _CHUNK_BYTES, index.end + len(tail)):
        tail += chunk
    line = lines.unseal(tail)
    if line is not None and (line.number is not None or len(tail) <= lines.FOREIGN_BYTES):
        write_all(descriptor, b"\n")
        index.learn(tail)
    else:
        folder.publish(f"{LOG_NAME}.torn-{index.end}-{blake2b(tail, digest_size=4).hexdigest()}", tail)
        os.ftruncate(descriptor, index.end)
    return True
