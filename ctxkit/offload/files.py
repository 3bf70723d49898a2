"""The store on files, in the layout of AgentScope's workspace: logs that only grow, blobs that appear whole.

- `sessions/{session}/context.jsonl`: one record a line
- `sessions/{session}/tool_result-{id}.txt`: a blob of the session
- `data/{sha256}.{ext}`: a blob that sessions share
"""

import asyncio
import errno
import os
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

from ctxkit.errors import RecordNotFoundError, StoreReadError, StoreWriteError
from ctxkit.offload import lines
from ctxkit.offload.directory import Directory, read_at
from ctxkit.offload.lock import locked
from ctxkit.offload.log import LOG_NAME, SessionLog
from ctxkit.offload.names import fsname
from ctxkit.offload.store import BLOB, Entry, Record

_T = TypeVar("_T")

SESSIONS: Final = "sessions"
DATA: Final = "data"

_NAME: Final = re.compile(r"(?!context\.)[A-Za-z0-9](?:[A-Za-z0-9._~-]{0,198}[A-Za-z0-9])?")
_FOLDER: Final = re.compile(r"[a-z0-9][a-z0-9_~-]{0,99}")
_CHUNK_BYTES: Final = 1 << 20
_PIECE_CHARS: Final = 32_768
"""Records are encoded in pieces of this size, with a pause between them for other tasks."""
_THREADS: Final = 4
"""Threads of one store: writes of one session go one after another, so more would only wait."""
_ENTRIES: Final = 500
"""So many entries are listed between two pauses for other tasks."""
_OPEN_LOGS: Final = 64
"""Sessions whose index is kept in memory; that of another one is read anew from its file."""
_NO_FILE: Final = frozenset({errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EISDIR, errno.EMLINK})
"""What opening a planted link, pipe or directory gives."""
_READ_ERRORS: Final = (FileNotFoundError, NotADirectoryError)


class _Running:
    """What belongs to one process: threads and indexes do not survive a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxkit-store")
        self.logs: OrderedDict[str, SessionLog] = OrderedDict()
        self.guard = threading.Lock()


class FileStore:
    """Keeps sessions in a directory of this machine; any number of processes may write the same one.

    An `append` or `put` that has returned survives `kill -9` and a power cut, as far as the disk keeps what it has
    confirmed. The directory must be on a local file system.

    Args:
        root: The directory; made at the first write. `sessions/` and `data/` in it are private to its owner.
        lock_timeout_s: Seconds to wait for another process that writes the same session.
    """

    def __init__(self, root: str | os.PathLike[str], *, lock_timeout_s: float = 10.0) -> None:
        # `resolve()` would follow links, and references would not be what the user expects.
        self.root = Path(os.path.normpath(Path(root) if Path(root).is_absolute() else Path.cwd() / root))
        self._lock_timeout_s = lock_timeout_s
        self._running = _Running()

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return; the latter looks at the disk."""
        folder = self._folder_parts(session_id)
        if name is None:
            return self._path(*folder, LOG_NAME)
        try:
            with self._open(*folder, create=False) as directory:
                name, _ = _free_name(directory, name, data)
        except _READ_ERRORS:
            pass  # nothing is there yet, so the name is free
        except OSError as exc:
            raise _error(StoreReadError, self._path(*folder), exc) from exc
        return self._path(*folder, name)

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        """Store records durably at the end of a session's log and return the log's path.

        Appends that wait at the same time are written as one group, with one sync for all.

        Raises:
            StoreWriteError: The records could not be stored; the file is as it was.
        """
        path = self.reference(session_id)
        if records:
            encoded = await _encode(records)
            running = self._own()
            log = self._log(session_id)
            done = log.submit(encoded)
            running.threads.submit(log.flush)
            try:
                await asyncio.wrap_future(done)
            except OSError as exc:
                raise _error(StoreWriteError, path, exc) from exc
        return path

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        """Store a blob durably and return its path; see `Store.put`.

        Raises:
            StoreWriteError: The blob could not be stored, or the name is not allowed.
        """
        folder = self._folder_parts(session_id)
        if not _NAME.fullmatch(name):
            msg = f"{name!r} is no name for a blob: give letters, digits, '.', '_', '~' and '-', not 'context.…'."
            raise StoreWriteError(msg)
        try:
            return await self._in_thread(partial(self._put, folder, name, data))
        except OSError as exc:
            raise _error(StoreWriteError, self._path(*folder, name), exc) from exc

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file of this store; see `Store.get`.

        Raises:
            RecordNotFoundError: The reference names nothing in this store.
            StoreReadError: The file cannot be read.
        """
        parts = self._parts_of(reference)
        try:
            return await self._in_thread(partial(self._get, parts, max(0, offset), length))
        except OSError as exc:
            if isinstance(exc, _READ_ERRORS) or exc.errno in _NO_FILE:
                msg = f"Nothing is stored under {reference!r}: list the session to see what is."
                raise RecordNotFoundError(msg) from exc
            raise _error(StoreReadError, reference, exc) from exc

    async def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield a session's records with a sequence above `after`, then its blobs, oldest first.

        Raises:
            StoreReadError: The session cannot be read.
        """
        try:
            records = await self._in_thread(partial(self._log(session_id).entries, after))
            blobs = await self._in_thread(partial(self._blobs, session_id))
        except OSError as exc:
            raise _error(StoreReadError, self._path(*self._folder_parts(session_id)), exc) from exc
        log = self.reference(session_id)
        for count, (number, offset, size, trailer) in enumerate(records, 1):
            if count % _ENTRIES == 0:
                await asyncio.sleep(0)
            known = trailer or lines.Line(b"")
            yield Entry(
                reference=log,
                kind=known.kind,
                size=size,
                offset=offset,
                sequence=number,
                key=known.key,
                provenance=known.provenance,
            )
        for blob in blobs:
            yield blob

    async def delete(self, session_id: str) -> None:
        """Remove all that a session owns; blobs that sessions share stay.

        Raises:
            StoreWriteError: Some of it could not be removed.
        """
        try:
            await self._in_thread(partial(self._delete, session_id))
        except OSError as exc:
            raise _error(StoreWriteError, self._path(*self._folder_parts(session_id)), exc) from exc

    def _own(self) -> _Running:
        if self._running.pid != os.getpid():
            self._running = _Running()
        return self._running

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._own().threads, call)

    def _log(self, session_id: str) -> SessionLog:
        running, name = self._own(), fsname(session_id)
        with running.guard:
            log = running.logs.get(name)
            if log is None:
                log = running.logs[name] = SessionLog(
                    partial(self._open, SESSIONS, name), lock_timeout_s=self._lock_timeout_s, settle=self._settle
                )
            running.logs.move_to_end(name)
            while len(running.logs) > _OPEN_LOGS:
                running.logs.popitem(last=False)
        return log

    def _settle(self, folder: Directory) -> None:
        """Make sure of the directories on the way: they may be of a process that was killed before it could."""
        folder.tidy()
        with Directory.at(self.root, create=False) as root:
            root.sync()
            with root.child(SESSIONS, create=False) as sessions:
                sessions.sync()

    @contextmanager
    def _open(self, *folder: str, create: bool) -> Iterator[Directory]:
        with ExitStack() as path:
            at = path.enter_context(Directory.at(self.root, create=create))
            for name in folder:
                at = path.enter_context(at.child(name, create=create))
            yield at

    def _put(self, folder: tuple[str, ...], name: str, data: bytes) -> str:
        with self._open(*folder, create=True) as directory:
            while True:
                free, there = _free_name(directory, name, data)
                if there:
                    directory.sync()  # whoever put it may have been killed before that
                    break
                if directory.publish(free, data):
                    break
        return self._path(*folder, free)

    def _get(self, parts: Sequence[str], offset: int, length: int | None) -> bytes:
        with self._open(*parts[:-1], create=False) as directory:
            descriptor = directory.open(parts[-1], os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            wanted = max(0, size - offset) if length is None else max(0, min(length, size - offset))
            found = bytearray()
            while len(found) < wanted:
                chunk = read_at(descriptor, min(_CHUNK_BYTES, wanted - len(found)), offset + len(found))
                if not chunk:
                    break
                found += chunk
            return bytes(found)
        finally:
            os.close(descriptor)

    def _blobs(self, session_id: str) -> Sequence[Entry]:
        folder = self._folder_parts(session_id)
        try:
            with self._open(*folder, create=False) as directory:
                found = [item for item in directory.files() if _NAME.fullmatch(item[0])]
        except _READ_ERRORS:
            return []
        found.sort(key=lambda item: (item[1].st_mtime_ns, item[0]))
        return [
            Entry(
                reference=self._path(*folder, name),
                kind=BLOB,
                size=status.st_size,
                name=name,
                created=status.st_mtime,
            )
            for name, status in found
        ]

    def _delete(self, session_id: str) -> None:
        name = fsname(session_id)
        try:
            with self._open(SESSIONS, create=False) as sessions:
                try:
                    with sessions.child(name, create=False) as folder, locked(folder, timeout_s=self._lock_timeout_s):
                        sessions.remove_tree(name)
                except NotADirectoryError:
                    sessions.remove_tree(name)
        except FileNotFoundError:
            return

    def _folder_parts(self, session_id: str | None) -> tuple[str, ...]:
        return (DATA,) if session_id is None else (SESSIONS, fsname(session_id))

    def _path(self, *parts: str) -> str:
        return str(self.root.joinpath(*parts))

    def _parts_of(self, reference: str) -> Sequence[str]:
        prefix = str(self.root).rstrip(os.sep) + os.sep
        parts = reference[len(prefix) :].split(os.sep) if reference.startswith(prefix) else []  # noqa: PTH206 - exact
        match parts:
            case [area, name] if area == DATA and _NAME.fullmatch(name):
                return parts
            case [area, folder, name] if area == SESSIONS and _FOLDER.fullmatch(folder):
                if name == LOG_NAME or _NAME.fullmatch(name):
                    return parts
        msg = f"{reference[:300]!r} is no reference of the store in {str(self.root)!r}: use one that it gave."
        raise RecordNotFoundError(msg)


async def _encode(records: Sequence[Record]) -> Sequence[tuple[bytes, Record]]:
    """Return the records with what stands on their lines, with pauses for other tasks."""
    encoded = []
    pending = 0
    for record in records:
        encoded.append((lines.encode(record), record))
        pending += len(record.body)
        if pending >= _PIECE_CHARS:
            pending = 0
            await asyncio.sleep(0)
    return encoded


def _free_name(directory: Directory, name: str, data: bytes) -> tuple[str, bool]:
    """Return the first name that is free or has this very content, and whether it has."""
    digest = sha256(data).hexdigest()
    stem, dot, ending = name.rpartition(".")
    for extra in ("", f"-{digest[:8]}", f"-{digest}"):
        candidate = f"{stem}{extra}{dot}{ending}" if dot else f"{name}{extra}"
        content = _compare(directory, candidate, data)
        if content is not None:
            return candidate, content
    raise OSError(errno.EEXIST, "all names for this content are taken by something else", str(directory.path))


def _compare(directory: Directory, name: str, data: bytes) -> bool | None:
    """Return True where the file has this content, False where there is none, `None` where it is something else."""
    try:
        descriptor = directory.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as exc:
        if exc.errno in _NO_FILE:
            return None
        raise
    try:
        if os.fstat(descriptor).st_size != len(data):
            return None
        for at in range(0, len(data), _CHUNK_BYTES):
            expected = data[at : at + _CHUNK_BYTES]
            if read_at(descriptor, len(expected), at) != expected:
                return None
        return True
    finally:
        os.close(descriptor)


_StoreErrorT = TypeVar("_StoreErrorT", StoreReadError, StoreWriteError)


def _error(kind: type[_StoreErrorT], path: str, exc: OSError) -> _StoreErrorT:
    """Return a store error that says where and why."""
    code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
    done = "read" if kind is StoreReadError else "written"
    remedy = "check that it is there and may be read" if kind is StoreReadError else "free space or check permissions"
    return kind(f"{path!r} could not be {done} ({code}: {exc.strerror or exc}): {remedy}, then call again.")
