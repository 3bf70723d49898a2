"""The log of one session: files of lines that only ever grow, written by any number of threads and processes.

Everything here blocks and is meant for a thread.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EIO, ENOENT
from threading import Lock
from typing import Final, Literal, Protocol

from ctxkit.errors import StoreWriteError
from ctxkit.offload import lines
from ctxkit.offload.directory import Directory, sync_file, write_all
from ctxkit.offload.files import mend
from ctxkit.offload.files.blobs import store_blob
from ctxkit.offload.files.epochs import highest_epoch, refuse_stale
from ctxkit.offload.files.kept import KeptFolder, OpenFolder
from ctxkit.offload.files.limits import FileLimits, Usage
from ctxkit.offload.files.log_index import LogIndex, Row, Segment, segment_name, segment_number, segments_of
from ctxkit.offload.store import Record

Fsync = Literal["always", "batch", "off"]

_TRIES: Final = 3
"""How often a session that is deleted at the very moment of a write is made anew."""

logger = logging.getLogger("ctxkit.offload")


class Pending(Protocol):
    """One call of `append` that waits for its answer."""

    records: Sequence[tuple[bytes, Record]]
    """Each record and its body as `lines.encode` gave it."""
    epoch: int | None
    """The owner's number; `None` is never refused."""
    error: BaseException | None
    """Set where the call failed."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What all logs of a store have in common."""

    fsync: Fsync
    limits: FileLimits
    usage: Usage
    settle: Callable[[Directory], None]
    """Called with the session's directory after the first write."""


@dataclass(frozen=True, kw_only=True)
class _Doubt:
    """What a failed write or sync has left behind."""

    segment: Segment
    start: int


class SessionLog:
    """Appends to one session's log and lists it.

    Args:
        session_id: The session, for messages.
        name: The name of its directory.
        open_folder: Opens the directory.
        settings: What all logs of the store have in common.
    """

    def __init__(self, session_id: str, name: str, open_folder: OpenFolder, *, settings: LogSettings) -> None:
        self._session_id = session_id
        self._name = name
        self._open_folder = open_folder
        self._settings = settings
        self._mutex = Lock()
        self._index = LogIndex()
        self._kept: KeptFolder | None = None
        self._is_settled = False
        self._is_retired = False
        self._doubt: _Doubt | None = None
        self._unsynced: tuple[Segment, int] | None = None
        """Acknowledged from this byte on, but not synced."""

    @property
    def is_unsynced(self) -> bool:
        """Whether something was acknowledged that `sync` has still to bring to the disk."""
        return self._unsynced is not None

    def commit(self, group: Sequence[Pending]) -> bool:
        """Write the records of a group of calls: all of a call or none.

        Returns:
            False where another writer holds the lock; nothing was done then.

        Raises:
            OSError: None of the group was written; calls that were refused have their own `error`.
        """
        with self._mutex:
            try:
                return self._commit(group)
            finally:
                if self._is_retired:
                    self._let_go()

    def sync(self) -> None:
        """Bring to the disk what was acknowledged before it was synced; a failure is met by the next write."""
        with self._mutex:
            self._sync()

    def rows(self, after: int) -> Sequence[Row]:
        """Return the records above a number; an unknown session has none."""
        with self._mutex:
            try:
                with self._open_folder(create=False) as folder:
                    self._learn(folder)
            except FileNotFoundError:
                return []
            return list(self._index.after(after))

    def close(self) -> None:
        """Sync what is to be synced and let go of all that is open; a write that comes later opens it anew, once."""
        with self._mutex:
            self._is_retired = True
            self._let_go()

    def _commit(self, group: Sequence[Pending]) -> bool:
        for _ in range(_TRIES):
            if self._kept is None:
                self._kept = KeptFolder(self._open_folder)
                self._is_settled = False
            kept = self._kept
            try:
                if not kept.try_lock():
                    return False
                if kept.is_current():
                    self._write(kept, group)
                    kept.unlock()
                    return True
            except FileNotFoundError:  # deleted by somebody who did not lock
                self._discard()
            except BaseException:
                self._discard()
                raise
            else:  # deleted, or moved away
                self._unsynced = self._doubt = None
                self._discard()
        raise FileNotFoundError(ENOENT, "was deleted again and again", self._name)

    def _write(self, kept: KeptFolder, group: Sequence[Pending]) -> None:
        is_synced = self._settings.fsync == "always"
        descriptor = self._catch_up(kept)
        segment = self._index.segments[-1]
        start = segment.end
        data, learnt, reserved = self._seal(kept.folder, group)
        try:
            write_all(descriptor, data)
        except OSError as exc:
            self._settings.usage.reserve(self._name, -reserved)
            if not self._take_back(descriptor, segment, start):
                raise
            for call in group:
                call.error = call.error or exc
            return
        try:
            if is_synced and data:
                sync_file(descriptor)
            if not self._is_settled:
                kept.folder.sync()
                self._settings.settle(kept.folder)
                self._is_settled = True
        except BaseException:
            self._settings.usage.reserve(self._name, -reserved)
            self._take_back(descriptor, segment, start)
            raise
        for line, size in learnt:
            self._index.add(line, size)
        segment.seen = segment.end
        self._index.sure = self._index.position
        if data and self._settings.fsync == "batch" and self._unsynced is None:
            self._unsynced = (segment, start)

    def _seal(
        self, folder: Directory, group: Sequence[Pending]
    ) -> tuple[bytearray, Sequence[tuple[lines.Line, int]], int]:
        """Return what is to be written, what the index learns of it, and the bytes that were reserved for it."""
        data, learnt, reserved = bytearray(), list[tuple[lines.Line, int]](), 0
        fresh: set[str] = set()
        highest: int | None = None
        for call in group:
            try:
                if call.epoch is not None:
                    highest = highest_epoch(folder) if highest is None else highest
                    refuse_stale(self._session_id, call.epoch, highest)
                missing: dict[str, tuple[bytes, Record]] = {}
                for body, record in call.records:
                    if record.key not in fresh and not self._index.knows(record.key):
                        missing.setdefault(record.key, (body, record))
                if not missing:
                    continue
                part, said, size = self._seal_call(folder, list(missing.values()), len(learnt))
            except (StoreWriteError, OSError) as exc:
                call.error = exc
                continue
            data += part
            learnt += said
            reserved += size
            fresh.update(missing)
        return data, learnt, reserved

    def _seal_call(
        self, folder: Directory, records: Sequence[tuple[bytes, Record]], before: int
    ) -> tuple[bytes, Sequence[tuple[lines.Line, int]], int]:
        most = self._settings.limits.record_bytes
        size = sum(len(body) + len(record.key) for body, record in records)
        self._settings.usage.reserve(self._name, size)
        sealed: list[bytes] = []
        learnt: list[tuple[lines.Line, int]] = []
        try:
            for number, (body, record) in enumerate(records, self._index.last + before + 1):
                spill = None
                if most is not None and len(body) > most:
                    name = store_blob(folder, lines.spill_name(body), body, is_synced=self._settings.fsync != "off")
                    spill = lines.Spill(name, len(body))
                more = len(records) - len(sealed) - 1
                line = lines.seal(body, record, number, spill=spill, more=more)
                sealed.append(line)
                known = lines.Line(b"", number, record.key, record.kind, record.provenance, spill, more)
                learnt.append((known, len(line) - 1))
        except BaseException:
            self._settings.usage.reserve(self._name, -size)
            raise
        return b"".join(sealed), learnt, size

    def _catch_up(self, kept: KeptFolder) -> int:
        """Learn what others wrote and mend what is broken, under the lock, and return the descriptor to write to."""
        index, folder = self._index, kept.folder
        if self._doubt is not None:
            self._resolve(folder, self._doubt)
        if not self._is_up_to_date(folder):
            index.rewind(*index.sure)
            self._learn(folder, is_locked=True)
        if not index.segments:
            descriptor = self._begin(kept, 1)
        else:
            segment = index.segments[-1]
            descriptor = kept.file(lambda at: at.open(segment.name, os.O_RDWR | os.O_APPEND), segment.file)
            if segment.seen > segment.end or index.torn_from is not None:
                self._mend_end(folder, descriptor, segment)
            most = self._settings.limits.segment_bytes
            if most is not None and segment.end >= most:
                self._sync()
                if self._kept is None:
                    raise OSError(EIO, "the file before could not be synced", segment.name)
                descriptor = self._begin(kept, (segment_number(segment.name) or 1) + 1)
        index.sure = index.position
        return descriptor

    def _mend_end(self, folder: Directory, descriptor: int, segment: Segment) -> None:
        """Deal with a last line or call that is not whole: its writer was killed, or the machine died."""
        index, start = self._index, segment.end
        line = mend.complete_line(descriptor, start)
        if line:
            index.learn(line)
        torn_from = segment.end if index.torn_from is None else index.torn_from
        mend.cut_off(folder, segment.name, descriptor, torn_from)
        index.rewind(len(index.segments), torn_from)
        segment.seen = segment.end
        # Before anything else: what follows may go to another file, or be nothing where the line is all that was asked for.
        self._sync_read(descriptor, segment, min(start, torn_from))

    def _is_up_to_date(self, folder: Directory) -> bool:
        index = self._index
        if not index.segments or index.position != index.sure:
            return False
        segment = index.segments[-1]
        status = folder.status(segment.name)
        following = segment_name((segment_number(segment.name) or 1) + 1)
        return status is not None and segment.is_same(status) and folder.status(following) is None

    def _begin(self, kept: KeptFolder, number: int) -> int:
        name = segment_name(number)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        descriptor = kept.file(lambda folder: folder.open(name, flags), None)
        self._is_settled = False
        self._index.begin(name, os.fstat(descriptor))
        return descriptor

    def _learn(self, folder: Directory, *, is_locked: bool = False) -> None:
        """Read what has come since; damage is mended under the lock, where nobody can be writing the line just now."""
        index = self._index
        names = segments_of(folder.names())
        for at, name in enumerate(names):
            status = folder.status(name)
            if status is None:
                raise FileNotFoundError(ENOENT, "was deleted", name)
            if at < len(index.segments):
                known = index.segments[at]
                is_last = at == len(index.segments) - 1
                if known.name == name and known.is_same(status) and (not is_last or self._still_stands(folder, at)):
                    continue
                grown = known.name == name and known.file == (status.st_dev, status.st_ino)
                if grown and status.st_size >= known.end and self._still_stands(folder, at):
                    index.rewind(at + 1, known.end)
                else:
                    index.rewind(at, index.segments[at - 1].end if at else 0)
            self._read(folder, name, status, at=at, is_locked=is_locked)
        if len(names) < len(index.segments):
            index.rewind(len(names), index.segments[len(names) - 1].end if names else 0)

    def _still_stands(self, folder: Directory, at: int) -> bool:
        descriptor = folder.open(self._index.segments[at].name, os.O_RDONLY)
        try:
            return self._index.still_stands(at, descriptor)
        finally:
            os.close(descriptor)

    def _read(self, folder: Directory, name: str, status: os.stat_result, *, at: int, is_locked: bool) -> None:
        descriptor = folder.open(name, os.O_RDONLY)
        try:
            if at == len(self._index.segments):
                self._index.begin(name, status)
                # Who began it may have been killed before its name was on the disk.
                self._is_settled = self._is_settled and not is_locked
            segment = self._index.segments[-1]
            start = segment.end
            damaged = self._index.catch_up(descriptor)
            if is_locked:
                mend.blank(folder, damaged)
                # Its writer may have been killed before that, and its records count from now on.
                self._sync_read(descriptor, segment, start)
        finally:
            os.close(descriptor)

    def _sync_read(self, descriptor: int, segment: Segment, start: int) -> None:
        """Sync what was learnt or mended from a byte on; where that fails it is written again before it is trusted."""
        if self._settings.fsync != "always":
            return
        try:
            sync_file(descriptor)
        except OSError:
            self._doubt = _Doubt(segment=segment, start=start)
            raise

    def _take_back(self, descriptor: int, segment: Segment, start: int) -> bool:
        """Undo a failed write; where that fails too, what was written is written again before anything rests on it."""
        try:
            os.ftruncate(descriptor, start)
        except OSError:
            self._doubt = _Doubt(segment=segment, start=start)
            return False
        segment.seen = start
        return True

    def _resolve(self, folder: Directory, doubt: _Doubt) -> None:
        status = folder.status(doubt.segment.name)
        if status is not None and doubt.segment.file == (status.st_dev, status.st_ino) and status.st_size > doubt.start:
            # Not cut off: another process may have been sent the same records, found these lines, and acknowledged them.
            mend.write_again(folder, doubt.segment.name, doubt.start)
        self._doubt = None

    def _sync(self) -> None:
        if self._unsynced is None or self._kept is None:
            return
        segment, _ = self._unsynced
        try:
            sync_file(self._kept.file(lambda folder: folder.open(segment.name, os.O_RDWR | os.O_APPEND), segment.file))
        except OSError as exc:
            logger.warning("The log of session %r could not be synced (%s): it is written again.", self._name, exc)
            self._discard()
        self._unsynced = None

    def _discard(self) -> None:
        """Trust nothing any more: what is open is closed, and what was learnt is read anew."""
        if self._unsynced is not None:
            segment, start = self._unsynced
            start = start if self._doubt is None else min(start, self._doubt.start)
            self._doubt, self._unsynced = _Doubt(segment=segment, start=start), None
        kept, self._kept = self._kept, None
        self._index = LogIndex()
        if kept is not None:
            kept.close()

    def _let_go(self) -> None:
        self._sync()
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
