"""The session store in one SQLite file: the embedded default, for any number of processes of one machine."""

import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ctxkit.errors import StoreError, StoreReadError, StoreWriteError
from ctxkit.offload.files.epochs import refuse_stale
from ctxkit.offload.names import fsname
from ctxkit.sessions.encoding import decode_state, encode_state, no_json_error
from ctxkit.sessions.rows import next_row, row_from_json, row_to_json
from ctxkit.sessions.sqlite.file import open_database
from ctxkit.sessions.store import SavedSession, SessionEntry
from ctxkit.sessions.trash import TrashedSession
from ctxkit.sessions.worker import Worker

_T = TypeVar("_T")

_MS: Final = 1000

_of_parents: Final[list[sqlite3.Connection]] = []
"""Connections that a forked child has from its parent: neither used nor closed, for that would undo the parent's locks."""


class SqliteSessionStore:
    """Keeps sessions in an SQLite database; see `SessionStore`.

    A `save` that has returned survives `kill -9` and a power cut, as far as the disk keeps what it has confirmed. The
    file must be on a local file system. The column `state` is AgentScope's own `AgentState` as JSON.

    Args:
        path: The database, made at the first use and private to its owner. Beside it stand SQLite's own files, and
            `<path>.locks/` with the locks of the sessions.
        busy_timeout_s: Seconds to wait for other processes that write.
        clock: Seconds since the epoch.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_timeout_s: float = 10.0, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = Path(os.path.normpath(Path(path) if Path(path).is_absolute() else Path.cwd() / path))
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock
        self._worker = Worker("ctxkit-sessions", closed=self._close)
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0, 0)
        """Process that has opened the connection, device and inode of its file."""

    async def save(
        self, session_id: str, state: Mapping[str, Any], *, entry: SessionEntry | None = None, epoch: int | None = None
    ) -> None:
        """Save the state of a session durably; see `SessionStore.save`. The state must not change meanwhile.

        Raises:
            StaleOwnerError: A higher epoch has saved or fenced the session.
            StoreWriteError: It could not be saved; the state saved before stays.
        """
        await self._write(partial(self._save, session_id, state, entry, epoch))

    async def load(self, session_id: str) -> SavedSession | None:
        """Return a saved session, or None where there is none.

        Raises:
            NewerFormatError: A newer ctxkit made the database.
            StoreReadError: It cannot be read.
        """
        return await self._read(partial(self._load, session_id))

    async def list(self) -> AsyncIterator[SessionEntry]:
        """Yield all sessions, the last saved first.

        Raises:
            StoreReadError: They cannot be read.
        """
        for row in await self._read(self._rows):
            yield row

    async def peek(self, session_id: str) -> SessionEntry | None:
        """Return the row of a session without loading its state.

        Raises:
            StoreReadError: It cannot be read.
        """
        return await self._read(partial(self._row, session_id))

    async def delete(self, session_id: str) -> None:
        """Remove a session; its epochs stay, so that an owner that lost it cannot bring it back.

        Raises:
            StoreWriteError: It could not be removed.
        """
        await self._write(partial(self._remove, session_id, "trashed_ms = 0"))

    async def fence(self, session_id: str, epoch: int) -> None:
        """Refuse every later `save` of a session with a lower epoch.

        Raises:
            StaleOwnerError: A higher epoch has been used already.
            StoreWriteError: The fence could not be stored.
        """
        await self._write(partial(self._fence, session_id, epoch))

    def lock_path(self, session_id: str) -> str:
        """Return the path of the file whose lock makes one owner of a session."""
        return os.path.join(f"{self.path}.locks", f"{fsname(session_id)}.lock")  # noqa: PTH118 - it is a text

    async def epoch(self, session_id: str) -> int:
        """Return the highest epoch that was used on a session, 0 where none was.

        Raises:
            StoreReadError: It cannot be read.
        """
        return await self._read(partial(self._highest, session_id))

    async def trash(self, session_id: str, *, saved_at: float | None = None) -> bool:
        """Move a session to the trash, unless it was saved since; see `Trashes`.

        Raises:
            StoreWriteError: It could not be moved.
        """
        return await self._write(partial(self._trash, session_id, saved_at))

    async def untrash(self, session_id: str) -> bool:
        """Bring a session back as it was trashed last; see `Trashes`.

        Raises:
            StoreWriteError: It could not be brought back.
        """
        return await self._write(partial(self._untrash, session_id))

    async def trashed(self) -> AsyncIterator[TrashedSession]:
        """Yield what is in the trash, the oldest first.

        Raises:
            StoreReadError: It cannot be read.
        """
        for one in await self._read(self._trashed):
            yield one

    async def purge(self, session_id: str, *, trashed_before: float) -> None:
        """Remove for good what was trashed of a session before a time.

        Raises:
            StoreWriteError: It could not be removed.
        """
        before = round(trashed_before * _MS)
        await self._write(partial(self._remove, session_id, f"trashed_ms > 0 AND trashed_ms < {before}"))

    async def aclose(self) -> None:
        """Close the database; the next call opens it again."""
        await self._worker.aclose()

    async def _read(self, call: Callable[[], _T]) -> _T:
        return await self._worker.run(partial(self._guarded, call, StoreReadError, "read"))

    async def _write(self, call: Callable[[], _T]) -> _T:
        return await self._worker.run(partial(self._guarded, call, StoreWriteError, "written"))

    def _guarded(self, call: Callable[[], _T], error: type[StoreError], what: str) -> _T:
        try:
            return call()
        # Python itself stumbles over an epoch that no column holds, and over a broken name in SQLite's own message.
        except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as exc:
            self._close()
            msg = f"The sessions in {str(self.path)!r} could not be {what}: {exc}. {_remedy(exc)}"
            raise error(msg) from exc
        except StoreReadError as exc:
            if issubclass(error, StoreReadError):
                raise
            raise error(str(exc)) from exc

    def _open(self) -> sqlite3.Connection:
        """Return the connection, a new one after a fork, and where the file was removed or put in another's place."""
        if self._connection is not None and self._file[0] != os.getpid():
            _of_parents.append(self._connection)
            self._connection = None
        try:
            status = self.path.stat()
        except FileNotFoundError:
            status = None
        if self._connection is not None and (status is None or self._file[1:] != (status.st_dev, status.st_ino)):
            self._close()
        if self._connection is None:
            self._connection = open_database(self.path, busy_timeout_s=self._busy_timeout_s)
            status = self.path.stat()
            self._file = (os.getpid(), status.st_dev, status.st_ino)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _save(self, session_id: str, state: Mapping[str, Any], entry: SessionEntry | None, epoch: int | None) -> None:
        try:
            data = encode_state(state)
        except ValueError as exc:
            raise no_json_error(session_id, exc) from exc
        key = fsname(session_id)
        with self._transaction() as connection:
            if epoch is not None:
                _raise_epoch(connection, session_id, epoch)
            before = self._row(session_id)
            row = next_row(session_id, entry, before, now=self._clock(), size=len(data))
            connection.execute(
                "INSERT OR REPLACE INTO sessions (key, trashed_ms, updated_ms, entry, state) VALUES (?, 0, ?, ?, ?)",
                (key, round(row.updated_at * _MS), json.dumps(row_to_json(row)), data.decode()),
            )

    def _fence(self, session_id: str, epoch: int) -> None:
        with self._transaction() as connection:
            _raise_epoch(connection, session_id, epoch)

    def _highest(self, session_id: str) -> int:
        return _highest_epoch(self._open(), session_id)

    def _load(self, session_id: str) -> SavedSession | None:
        found = self._open().execute(
            "SELECT entry, state FROM sessions WHERE key = ? AND trashed_ms = 0", (fsname(session_id),)
        )
        for entry, state in found:
            try:
                return SavedSession(state=decode_state(_text(state).encode()), entry=_row(entry))
            except ValueError as exc:
                msg = f"The saved state of session {session_id[:200]!r} in {str(self.path)!r} is broken: {exc}."
                raise StoreReadError(msg) from exc
        return None

    def _row(self, session_id: str) -> SessionEntry | None:
        query = "SELECT entry FROM sessions WHERE key = ? AND trashed_ms = 0"
        for (entry,) in self._open().execute(query, (fsname(session_id),)):
            return _row(entry)
        return None

    def _rows(self) -> Sequence[SessionEntry]:
        query = "SELECT entry FROM sessions WHERE trashed_ms = 0 ORDER BY updated_ms DESC, key"
        return [_row(entry) for (entry,) in self._open().execute(query)]

    def _trash(self, session_id: str, saved_at: float | None) -> bool:
        key = fsname(session_id)
        with self._transaction() as connection:
            last = connection.execute("SELECT max(trashed_ms) FROM sessions WHERE key = ?", (key,)).fetchone()[0]
            at = max(round(self._clock() * _MS), _number(last or 0) + 1)
            where, values = "key = ? AND trashed_ms = 0", [at, key]
            if saved_at is not None:
                where, values = f"{where} AND updated_ms = ?", [*values, round(saved_at * _MS)]
            done = connection.execute(f"UPDATE sessions SET trashed_ms = ? WHERE {where}", values)  # noqa: S608 - only constants
            return done.rowcount > 0

    def _untrash(self, session_id: str) -> bool:
        key = fsname(session_id)
        with self._transaction() as connection:
            done = connection.execute(
                "UPDATE sessions SET trashed_ms = 0 WHERE key = ? AND trashed_ms > 0"
                " AND trashed_ms = (SELECT max(trashed_ms) FROM sessions WHERE key = ?)"
                " AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = ? AND trashed_ms = 0)",
                (key, key, key),
            )
            return done.rowcount > 0

    def _trashed(self) -> Sequence[TrashedSession]:
        query = "SELECT entry, trashed_ms FROM sessions WHERE trashed_ms > 0 ORDER BY trashed_ms, key"
        return [
            TrashedSession(session_id=_row(entry).session_id, trashed_at=_number(at) / _MS)
            for entry, at in self._open().execute(query)
        ]

    def _remove(self, session_id: str, where: str) -> None:
        with self._transaction() as connection:
            connection.execute(f"DELETE FROM sessions WHERE key = ? AND {where}", (fsname(session_id),))  # noqa: S608 - only constants
        # Only then the text is gone from the write-ahead log too; where somebody reads, the next checkpoint does it.
        self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _raise_epoch(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    refuse_stale(session_id, epoch, _highest_epoch(connection, session_id))
    connection.execute("INSERT OR REPLACE INTO epochs (key, epoch) VALUES (?, ?)", (fsname(session_id), epoch))


def _highest_epoch(connection: sqlite3.Connection, session_id: str) -> int:
    found = connection.execute("SELECT epoch FROM epochs WHERE key = ?", (fsname(session_id),)).fetchone()
    return _number(found[0]) if found is not None else 0


def _row(entry: object) -> SessionEntry:
    try:
        return row_from_json(json.loads(_text(entry)))
    except (ValueError, RecursionError) as exc:
        raise sqlite3.DatabaseError(str(exc)) from exc


def _text(value: object) -> str:
    if not isinstance(value, str):  # SQLite takes any value in any column
        msg = f"there is a {type(value).__name__} where a text is to be"
        raise sqlite3.DatabaseError(msg)
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        msg = f"there is a {type(value).__name__} where a whole number is to be"
        raise sqlite3.DatabaseError(msg)
    return value


def _remedy(exc: Exception) -> str:
    if isinstance(exc, sqlite3.OperationalError) and "locked" in str(exc):
        return "Another process has been writing all the time: try again, or give a longer busy_timeout_s."
    if isinstance(exc, sqlite3.DatabaseError) and not isinstance(exc, sqlite3.OperationalError):
        return "The file is damaged and was left as it is: restore a copy, or move it away to begin anew."
    return "Look at the path, its permissions and the free space."
