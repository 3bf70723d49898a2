"""The blocking half of the store on files: what its threads do, and what it keeps open; see `files` for the other half."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import partial
from typing import Final

from ctxkit.offload.directory import Directory
from ctxkit.offload.files import epochs
from ctxkit.offload.files.blobs import Draft, is_blob_name, store_blob
from ctxkit.offload.files.layout import SESSIONS, Layout
from ctxkit.offload.files.limits import FileLimits, Usage
from ctxkit.offload.files.log import Fsync, LogSettings, SessionLog
from ctxkit.offload.files.log_index import Row
from ctxkit.offload.files.reading import Reading
from ctxkit.offload.files.writer import Writer
from ctxkit.offload.locks.file_lease import FileLease, try_take
from ctxkit.offload.locks.holder import Holder
from ctxkit.offload.locks.lock import locked
from ctxkit.offload.names import fsname
from ctxkit.offload.search import PIECE_BYTES, Needle
from ctxkit.offload.store import BLOB, Entry

LEASE_NAME: Final = ".lease"

_THREADS: Final = 4
"""Threads of one store beside its writer's."""
_OPEN_LOGS: Final = 64
"""Sessions of which the index, the directory, the lock and the log are kept open; three descriptors each."""


class Disk:
    """One process's hold on a store: threads, descriptors and indexes do not survive a fork.

    Args:
        layout: What stands where.
        fsync: See `FileStore`.
        limits: See `FileStore`.
        lock_timeout_s: Seconds to wait for another writer of a session.
    """

    def __init__(self, layout: Layout, *, fsync: Fsync, limits: FileLimits, lock_timeout_s: float) -> None:
        self.pid = os.getpid()
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxkit-store")
        self.writer = Writer(lock_timeout_s=lock_timeout_s)
        self._layout = layout
        self._is_synced = fsync != "off"
        self._lock_timeout_s = lock_timeout_s
        self._usage = Usage(limits, layout.count)
        self._settings = LogSettings(fsync=fsync, limits=limits, usage=self._usage, settle=Directory.tidy)
        self._logs: OrderedDict[str, SessionLog] = OrderedDict()
        self._guard = threading.Lock()

    def log(self, session_id: str) -> SessionLog:
        """Return the log of a session; that of the one that was used longest ago is closed for it."""
        name = fsname(session_id)
        with self._guard:
            log = self._logs.get(name)
            if log is None:
                opening = partial(self._layout.open, SESSIONS, name)
                log = self._logs[name] = SessionLog(session_id, name, opening, settings=self._settings)
            self._logs.move_to_end(name)
            if len(self._logs) > _OPEN_LOGS:
                _, oldest = self._logs.popitem(last=False)
                self.later(oldest.close)
        return log

    def later(self, call: Callable[[], None]) -> None:
        """Do something in a thread, for nobody who waits."""
        with suppress(RuntimeError):  # the process is ending, and all is closed by that
            self.threads.submit(call)

    def close(self) -> None:
        """Write and sync what waits, end the threads, and close all."""
        self.writer.close()
        self.threads.shutdown(wait=True)
        with self._guard:
            logs = list(self._logs.values())
            self._logs.clear()
        for log in logs:
            log.close()

    def draft(self, session_id: str | None) -> Draft:
        """Return a blob to write in chunks."""
        opening = partial(self._layout.open, *self._layout.folder(session_id), create=True)
        return Draft(opening, reserve=self._reserve(session_id), is_synced=self._is_synced)

    def publish(self, draft: Draft, session_id: str | None, name: str, epoch: int | None) -> str:
        """Make a drafted blob appear and return its path."""
        try:
            found = draft.publish(name, self._allowed(session_id, epoch))
        finally:
            draft.discard()
        return self._layout.path(*self._layout.folder(session_id), found)

    def put(self, session_id: str | None, name: str, data: bytes, epoch: int | None) -> str:
        """Store a blob and return its path."""
        folder = self._layout.folder(session_id)
        with self._layout.open(*folder, create=True) as directory:
            found = store_blob(
                directory,
                name,
                data,
                allowed=self._allowed(session_id, epoch),
                reserve=self._reserve(session_id),
                is_synced=self._is_synced,
            )
        return self._layout.path(*folder, found)

    def rows(self, session_id: str, after: int) -> Sequence[Row]:
        """Return a session's records above a number."""
        return self.log(session_id).rows(after)

    def blobs(self, session_id: str) -> Sequence[Entry]:
        """Return a session's blobs, oldest first."""
        folder = self._layout.folder(session_id)
        try:
            with self._layout.open(*folder, create=False) as directory:
                found = [item for item in directory.files() if is_blob_name(item[0])]
        except (FileNotFoundError, NotADirectoryError):
            return []
        found.sort(key=lambda item: (item[1].st_mtime_ns, item[0]))
        return [
            Entry(
                reference=self._layout.path(*folder, name),
                kind=BLOB,
                size=status.st_size,
                name=name,
                created=status.st_mtime,
            )
            for name, status in found
        ]

    def having(self, session_id: str, rows: Sequence[Row], needle: Needle) -> Sequence[Row]:
        """Return those of neighbouring records, newest first, that have a text."""
        spill = rows[0].line.spill
        if spill is not None:
            return rows if self.has(session_id, spill.name, needle, is_json=True) else ()
        start = rows[-1].offset
        size = rows[0].offset + rows[0].size - start
        opening = partial(self._layout.open, *self._layout.folder(session_id), create=False)
        with closing(Reading(opening, rows[0].segment, offset=start, length=size)) as reading:
            data = reading.readall()
        return [row for row in rows if needle.is_on_line(data[row.offset - start :][: row.size])]

    def has(self, session_id: str, name: str, needle: Needle, *, is_json: bool = False) -> bool:
        """Tell whether a file has a text; one that is gone has none."""
        opening = partial(self._layout.open, *self._layout.folder(session_id), create=False)
        with closing(Reading(opening, name)) as reading:
            try:
                return needle.is_in(iter(partial(reading.read, PIECE_BYTES), b""), is_json=is_json)
            except FileNotFoundError:
                return False

    def delete(self, session_id: str, epoch: int | None) -> None:
        """Remove a session's directory, or of one that was fenced all but the fence; one that is not there is no error."""
        name = fsname(session_id)
        with self._guard:
            log = self._logs.pop(name, None)
        if log is not None:
            log.close()
        try:
            with self._layout.open(SESSIONS, create=False) as sessions:
                try:
                    with sessions.child(name, create=False) as folder, locked(folder, timeout_s=self._lock_timeout_s):
                        if epoch is not None:
                            epochs.refuse_stale(session_id, epoch, epochs.highest_epoch(folder))
                        if epochs.is_fenced(folder):
                            epochs.empty(folder)
                        else:
                            sessions.remove_tree(name)
                except NotADirectoryError:
                    sessions.remove_tree(name)  # a planted link or file
        except FileNotFoundError:
            return
        finally:
            self._usage.forget(name)

    def fence(self, session_id: str, epoch: int) -> None:
        """Refuse all lower epochs in a session from now on."""
        with (
            self._layout.open(*self._layout.folder(session_id), create=True) as folder,
            locked(folder, timeout_s=self._lock_timeout_s),
        ):
            epochs.raise_epoch(folder, session_id, epoch)
            folder.tidy()

    def try_lease(self, session_id: str, owner: Mapping[str, str | int]) -> FileLease | Holder | None:
        """Take a session if it is free; otherwise return who holds it, as far as that is known."""
        with self._layout.open(*self._layout.folder(session_id), create=True) as folder:
            return try_take(folder, LEASE_NAME, owner=owner)

    def _reserve(self, session_id: str | None) -> Callable[[int], None]:
        return partial(self._usage.reserve, None if session_id is None else fsname(session_id))

    def _allowed(
        self, session_id: str | None, epoch: int | None
    ) -> Callable[[Directory], AbstractContextManager[None]]:
        if session_id is None or epoch is None:
            return lambda _: nullcontext()
        return partial(epochs.fenced, session_id=session_id, epoch=epoch, timeout_s=self._lock_timeout_s)
