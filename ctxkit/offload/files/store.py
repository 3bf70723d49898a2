"""The store on files: logs that only grow, blobs that appear whole, private to their owner; see `layout` for the names."""

import asyncio
import errno
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, TypeVar, cast, get_args

from aiofiles.threadpool.binary import AsyncFileIO

from ctxkit.errors import ConfigError, RecordNotFoundError, StoreReadError, StoreWriteError
from ctxkit.offload import lines
from ctxkit.offload.capabilities import Lease
from ctxkit.offload.fenced import FencedStore
from ctxkit.offload.files.blobs import NO_FILE, check_blob_name, free_name
from ctxkit.offload.files.disk import Disk
from ctxkit.offload.files.layout import Layout
from ctxkit.offload.files.limits import FileLimits
from ctxkit.offload.files.log import Fsync
from ctxkit.offload.files.log_index import LOG_NAME, Row
from ctxkit.offload.files.reading import Reading
from ctxkit.offload.locks.lease_wait import lease_when_free
from ctxkit.offload.search import Needle, neighbours
from ctxkit.offload.store import Entry, Record, Store

_T = TypeVar("_T")
_StoreErrorT = TypeVar("_StoreErrorT", StoreReadError, StoreWriteError)

_CHUNK_BYTES: Final = 1 << 20
_ENTRIES: Final = 500
"""So many entries are listed between two pauses for other tasks."""
_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError)


class FileStore:
    """Keeps sessions in a directory of this machine; any number of processes may write the same one.

    An `append` or `put` that has returned survives `kill -9` and a power cut, as far as the disk keeps what it has
    confirmed. The directory must be on a local file system.

    Beyond `Store`: a record bigger than `FileLimits.record_bytes` stands in a file of its own, and its entry names that
    one; a log goes on in further files, and entries name the one that they are in, while `append` and `reference` give
    the first. It has all capabilities of `ctxkit.offload.capabilities`.

    Args:
        root: The directory; made at the first write. `sessions/` and `data/` in it are private to its owner.
        fsync: When what was stored is on the disk. `"always"`: before `append` and `put` return, so it survives a power
            cut. `"batch"`: records within a second and at `aclose`, so the last second may be lost in a power cut and
            nothing by the death of the process; blobs as with `"always"`. `"off"`: when the system thinks best, so a
            power cut may cost anything, and the death of the process nothing.
        limits: Sizes that it keeps to.
        lock_timeout_s: Seconds to wait for another process that writes the same session.

    Raises:
        ConfigError: `fsync` is none of the three.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        fsync: Fsync = "always",
        limits: FileLimits | None = None,
        lock_timeout_s: float = 10.0,
    ) -> None:
        if fsync not in get_args(Fsync):
            msg = f"FileStore.fsync is {fsync!r}: give one of {', '.join(map(repr, get_args(Fsync)))}."
            raise ConfigError(msg)
        self._layout = Layout(root)
        self.root: Path = self._layout.root
        limits = limits or FileLimits()
        self._open_disk = partial(Disk, self._layout, fsync=fsync, limits=limits, lock_timeout_s=lock_timeout_s)
        self._disk: Disk | None = None

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return; the latter looks at the disk.

        Raises:
            StoreWriteError: The name is not allowed.
            StoreReadError: The disk cannot be read.
        """
        folder = self._layout.folder(session_id)
        if name is None:
            return self._layout.path(*folder, LOG_NAME)
        check_blob_name(name)
        try:
            with self._layout.open(*folder, create=False) as directory:
                name, _ = free_name(directory, name, len(data), sha256(data).hexdigest())
        except _NOT_THERE:
            pass  # nothing is there yet, so the name is free
        except OSError as exc:
            raise _error(StoreReadError, self._layout.path(*folder), exc) from exc
        return self._layout.path(*folder, name)

    async def append(self, session_id: str, records: Sequence[Record], *, epoch: int | None = None) -> str:
        """Store records at the end of a session's log and return the path of its first file.

        Appends that wait at the same time are written as one group, with one sync for all.

        Args:
            session_id: The session.
            records: The records, in order.
            epoch: The number of the owner that writes, as it was fenced; a write without one is never refused.

        Raises:
            StoreWriteError: The records could not be stored; the log is as it was.
            StoreFullError: A limit would be passed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        if records:
            encoded = await lines.encode_all(records)
            disk = self._own()
            try:
                await disk.writer.submit(disk.log(session_id), encoded, epoch)
            except OSError as exc:
                raise self._failed(StoreWriteError, exc, session_id, LOG_NAME) from exc
        return self.reference(session_id)

    async def put(self, session_id: str | None, name: str, data: bytes, *, epoch: int | None = None) -> str:
        """Store a blob durably and return its path; see `Store.put`.

        Raises:
            StoreWriteError: The blob could not be stored, or the name is not allowed.
            StoreFullError: A limit would be passed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        check_blob_name(name)
        try:
            return await self._in_thread(partial(self._own().put, session_id, name, data, epoch))
        except OSError as exc:
            raise self._failed(StoreWriteError, exc, session_id, name) from exc

    async def put_chunks(
        self, session_id: str | None, name: str, chunks: AsyncIterable[bytes], *, epoch: int | None = None
    ) -> str:
        """Store chunks as one blob, whole or not at all, and return its path; see `Streams.put_chunks`.

        Raises:
            StoreWriteError: The blob could not be stored, or the name is not allowed.
            StoreFullError: A limit would be passed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        check_blob_name(name)
        disk = self._own()
        draft = disk.draft(session_id)
        try:
            async for chunk in chunks:
                await self._in_thread(partial(draft.write, chunk))
            return await self._in_thread(partial(disk.publish, draft, session_id, name, epoch))
        except (asyncio.CancelledError, GeneratorExit):
            disk.later(draft.discard)  # without waiting: who is cancelled leaves at once
            raise
        except BaseException as exc:
            await self._in_thread(draft.discard)
            if isinstance(exc, OSError):
                raise self._failed(StoreWriteError, exc, session_id, name) from exc
            raise

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file of this store, read in chunks beside the event loop; see `Store.get`.

        Raises:
            RecordNotFoundError: The reference names nothing in this store.
            StoreReadError: The file cannot be read.
        """
        *folder, name = self._layout.parts_of(reference)
        opening = partial(self._layout.open, *folder, create=False)
        reading = Reading(opening, name, offset=max(0, offset), length=length)
        disk = self._own()
        file = AsyncFileIO(cast("BinaryIO", reading), asyncio.get_running_loop(), disk.threads)
        size = _CHUNK_BYTES if length is None else min(_CHUNK_BYTES, max(0, length))
        found = bytearray()
        try:
            while not reading.closed:
                found += await file.read(size)
        except OSError as exc:
            if isinstance(exc, _NOT_THERE) or exc.errno in NO_FILE:
                msg = f"Nothing is stored under {reference!r}: list the session to see what is."
                raise RecordNotFoundError(msg) from exc
            raise _error(StoreReadError, reference, exc) from exc
        finally:
            if not reading.closed:
                disk.later(reading.close)  # without waiting, for who is cancelled leaves at once
        return bytes(found)

    async def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield a session's records with a sequence above `after`, then its blobs, oldest first.

        Raises:
            StoreReadError: The session cannot be read.
        """
        rows, blobs = await self._look(session_id, after)
        for count, row in enumerate(rows, 1):
            if count % _ENTRIES == 0:
                await asyncio.sleep(0)
            yield self._entry(session_id, row)
        for blob in blobs:
            yield blob

    async def search(self, session_id: str, text: str) -> AsyncIterator[Entry]:
        """Yield the records, newest first, then the blobs whose content has a text; see `Searches.search`.

        In a record it is looked for as the JSON has it, names of fields included.

        Raises:
            StoreReadError: The session cannot be read.
        """
        rows, blobs = await self._look(session_id, 0)
        disk, needle = self._own(), Needle(text)
        try:
            for group in neighbours(rows):
                for row in await self._in_thread(partial(disk.having, session_id, group, needle)):
                    yield self._entry(session_id, row)
            for blob in reversed(blobs):
                if await self._in_thread(partial(disk.has, session_id, blob.name or "", needle)):
                    yield blob
        except OSError as exc:
            raise self._failed(StoreReadError, exc, session_id) from exc

    async def delete(self, session_id: str, *, epoch: int | None = None) -> None:
        """Remove all that a session owns; blobs that sessions share stay, and so does the number of a fence.

        Raises:
            StoreWriteError: Some of it could not be removed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        try:
            await self._in_thread(partial(self._own().delete, session_id, epoch))
        except OSError as exc:
            raise self._failed(StoreWriteError, exc, session_id) from exc

    async def fence(self, session_id: str, epoch: int) -> Store:
        """Refuse all lower epochs in a session from now on; see `Fences.fence`.

        Raises:
            StaleOwnerError: A higher epoch has been fenced already.
            StoreWriteError: The fence could not be stored.
        """
        try:
            await self._in_thread(partial(self._own().fence, session_id, epoch))
        except OSError as exc:
            raise self._failed(StoreWriteError, exc, session_id) from exc
        return FencedStore(self, session_id, epoch)

    async def lease(
        self, session_id: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float = 0.0
    ) -> Lease:
        """Take a session by a lock of the kernel, which frees it when its owner dies; see `Leases.lease`.

        Args:
            session_id: The session.
            owner: Who asks, as errors show it to others.
            ttl_s: Without meaning here: the kernel knows better than a clock.
            timeout_s: Seconds to wait for another owner.

        Raises:
            SessionLockedError: Another owner held it all the time; the message names it.
            StoreWriteError: The lease could not be stored.
        """
        del ttl_s
        attempt = partial(self._own().try_lease, session_id, owner)
        return await lease_when_free(attempt, what=f"Session {session_id[:100]!r}", timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Write and sync what waits, and close all that is open; another call opens it anew."""
        disk, self._disk = self._disk, None
        if disk is not None and disk.pid == os.getpid():
            await asyncio.to_thread(disk.close)

    def _own(self) -> Disk:
        if self._disk is None or self._disk.pid != os.getpid():
            self._disk = self._open_disk()
        return self._disk

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._own().threads, call)

    async def _look(self, session_id: str, after: int) -> tuple[Sequence[Row], Sequence[Entry]]:
        disk = self._own()
        try:
            rows = await self._in_thread(partial(disk.rows, session_id, after))
            return rows, await self._in_thread(partial(disk.blobs, session_id))
        except OSError as exc:
            raise self._failed(StoreReadError, exc, session_id) from exc

    def _entry(self, session_id: str, row: Row) -> Entry:
        """Return what a record is listed as: its place on a line, or the file of its own."""
        spill = row.line.spill
        file, offset, size = (row.segment, row.offset, row.size) if spill is None else (spill.name, 0, spill.size)
        return Entry(
            reference=self._layout.path(*self._layout.folder(session_id), file),
            kind=row.line.kind,
            size=size,
            offset=offset,
            sequence=row.number,
            key=row.line.key,
            provenance=row.line.provenance,
        )

    def _failed(
        self, kind: type[_StoreErrorT], exc: OSError, session_id: str | None, name: str | None = None
    ) -> _StoreErrorT:
        folder = self._layout.folder(session_id)
        return _error(kind, self._layout.path(*folder) if name is None else self._layout.path(*folder, name), exc)


def _error(kind: type[_StoreErrorT], path: str, exc: OSError) -> _StoreErrorT:
    """Return a store error that says where and why."""
    code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
    done = "read" if kind is StoreReadError else "written"
    remedy = "check that it is there and may be read" if kind is StoreReadError else "free space or check permissions"
    return kind(f"{path!r} could not be {done} ({code}: {exc.strerror or exc}): {remedy}, then call again.")
