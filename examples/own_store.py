"""A store of your own, on SQLite, and the suite that asks every promise of it: `pytest examples/own_store.py`."""

import asyncio
import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from ctxkit import Entry, Record, RecordNotFoundError, StoreReadError, StoreWriteError
from ctxkit.offload import BLOB, fsname, record_key
from ctxkit.offload.lines import encode
from ctxkit.testing import StoreSuite

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    session TEXT, n INTEGER, start INTEGER, key TEXT, kind TEXT, body BLOB,
    PRIMARY KEY (session, n), UNIQUE (session, key)
);
CREATE TABLE IF NOT EXISTS blobs (
    id INTEGER PRIMARY KEY, session TEXT, name TEXT, data BLOB, UNIQUE (session, name)
);
"""
SHARED = "-"  # no session has this name
NAME = re.compile(r"(?!context\.)[A-Za-z0-9][A-Za-z0-9._~-]{0,199}")


class SqliteStore:
    """Keeps everything in one database file, which any number of processes may open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1)  # the connection's own; the event loop never waits for the disk
        self._connection: sqlite3.Connection | None = None

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return."""
        session = SHARED if session_id is None else fsname(session_id)
        if name is None:
            return f"sqlite:{session}"
        return self._thread.submit(self._place, session, name, data).result()

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        """Store records at the end of a session's log."""
        rows = [(record, encode(record)) for record in records]  # refuses what is no record
        await self._run(StoreWriteError, lambda: self._append(fsname(session_id), rows))
        return self.reference(session_id)

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        """Store a blob."""
        if not NAME.fullmatch(name):
            msg = f"{name!r} is no name for a blob: give letters, digits, '.', '_', '~' and '-', not 'context.…'."
            raise StoreWriteError(msg)
        session = SHARED if session_id is None else fsname(session_id)
        return await self._run(StoreWriteError, lambda: self._put(session, name, data))

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of a blob or a log."""
        found = await self._run(StoreReadError, lambda: self._get(reference))
        if found is None:
            msg = f"Nothing is stored under {reference[:300]!r}: list the session to see what is."
            raise RecordNotFoundError(msg)
        start = max(0, offset)
        return found[start:] if length is None else found[start : start + max(0, length)]

    async def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield a session's records with a sequence above `after`, then its blobs, oldest first."""
        for entry in await self._run(StoreReadError, lambda: self._entries(fsname(session_id), after)):
            yield entry

    async def delete(self, session_id: str) -> None:
        """Remove all that a session owns."""
        await self._run(StoreWriteError, lambda: self._delete(fsname(session_id)))

    async def aclose(self) -> None:
        """Close the database."""
        if self._connection is not None:
            await self._run(StoreWriteError, self._connection.close)
        self._thread.shutdown(wait=False)

    def _append(self, session: str, rows: Sequence[tuple[Record, bytes]]) -> None:
        with self._transaction() as database:
            last = "SELECT n, start + length(body) + 1 FROM records WHERE session = ? ORDER BY n DESC LIMIT 1"
            number, start = database.execute(last, (session,)).fetchone() or (0, 0)
            insert = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session, key) DO NOTHING"
            for record, body in rows:
                row = (session, number + 1, start, record.key, record.kind, body)
                if database.execute(insert, row).rowcount:
                    number, start = number + 1, start + len(body) + 1

    def _put(self, session: str, name: str, data: bytes) -> str:
        with self._transaction() as database:
            reference = self._place(session, name, data)
            insert = "INSERT INTO blobs (session, name, data) VALUES (?, ?, ?) ON CONFLICT (session, name) DO NOTHING"
            database.execute(insert, (session, reference.rpartition("/")[2], data))
        return reference

    def _place(self, session: str, name: str, data: bytes) -> str:
        query = "SELECT data FROM blobs WHERE session = ? AND name = ?"
        row = self._database().execute(query, (session, name)).fetchone()
        if row is not None and row[0] != data:
            stem, dot, ending = name.rpartition(".")
            digest = sha256(data).hexdigest()
            return self._place(session, f"{stem}-{digest}{dot}{ending}" if dot else f"{name}-{digest}", data)
        return f"sqlite:{session}/{name}"

    def _get(self, reference: str) -> bytes | None:
        session, slash, name = reference.removeprefix("sqlite:").partition("/")
        if not reference.isprintable() or not reference.startswith("sqlite:"):
            return None
        if slash:
            query = "SELECT data FROM blobs WHERE session = ? AND name = ?"
            row = self._database().execute(query, (session, name)).fetchone()
            return row[0] if row else None
        query = "SELECT body FROM records WHERE session = ? ORDER BY n"
        return b"".join(body + b"\n" for (body,) in self._database().execute(query, (session,))) or None

    def _entries(self, session: str, after: int) -> Sequence[Entry]:
        log = f"sqlite:{session}"
        records = "SELECT n, start, key, kind, length(body) FROM records WHERE session = ? AND n > ? ORDER BY n"
        blobs = "SELECT name, length(data) FROM blobs WHERE session = ? ORDER BY id"
        return [
            *(
                Entry(reference=log, sequence=number, offset=start, key=key, kind=kind, size=size)
                for number, start, key, kind, size in self._database().execute(records, (session, after))
            ),
            *(
                Entry(reference=f"{log}/{name}", kind=BLOB, name=name, size=size)
                for name, size in self._database().execute(blobs, (session,))
            ),
        ]

    def _delete(self, session: str) -> None:
        with self._transaction() as database:
            database.execute("DELETE FROM records WHERE session = ?", (session,))
            database.execute("DELETE FROM blobs WHERE session = ?", (session,))

    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=10, check_same_thread=False)
            # NORMAL, the usual advice, loses what was acknowledged when the power fails. The rollback journal stays: SQLite
            # does not wait where two processes change to a write-ahead log at once.
            self._connection.executescript(f"PRAGMA synchronous = FULL; BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._database()
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    async def _run(self, error: type[StoreReadError | StoreWriteError], call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except sqlite3.Error as exc:
            msg = f"{str(self.path)!r}: {exc}; call again when that is put right."
            raise error(msg) from exc


class TestSqliteStore(StoreSuite):
    """Every promise of a store, asked of this one."""

    def open_store(self, place: Path) -> SqliteStore:
        """Return one more client of the database in this place."""
        return SqliteStore(place / "store.db")


async def main() -> None:
    """Store a record twice, and see it once."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "store.db")
        body = '{"id": "m1", "text": "remember me"}'
        for _ in range(2):
            await store.append("session", [Record(key=record_key("m1", body), body=body)])
        async for entry in store.list("session"):
            data = await store.get(entry.reference, entry.offset, entry.size)
            print(entry.sequence, data.decode())
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
