"""The file of a session database: made private, opened durable, refused where it is not ours to write."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctxkit.errors import NewerFormatError, StoreReadError
from ctxkit.offload.directory import PRIVATE_FILE, Directory

VERSION: Final = 1
"""Of the tables, in `PRAGMA user_version`."""

_APPLICATION: Final = 0x43_54_58_4B
"""`CTXK` in `PRAGMA application_id`: a database that is not ours is left alone."""

_OTHERS: Final = 0o077
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite adds to the name of a database for its own files."""
_PAUSE_S: Final = 0.01
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PRIMARY_CODE: Final = 0xFF
"""The primary part of an error's code; the rest says more exactly what it was."""

_SCHEMA: Final = (
    # Several rows of one key: the live one has `trashed_ms` 0, and each one in the trash the time at which it went there.
    """CREATE TABLE sessions (
        key TEXT NOT NULL,
        trashed_ms INTEGER NOT NULL DEFAULT 0,
        updated_ms INTEGER NOT NULL,
        entry TEXT NOT NULL,
        state TEXT NOT NULL,
        PRIMARY KEY (key, trashed_ms)
    )""",
    "CREATE INDEX sessions_by_time ON sessions (trashed_ms, updated_ms)",
    # Apart from the sessions, for epochs outlive them.
    "CREATE TABLE epochs (key TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)

_opening: Final = threading.Lock()
"""One at a time: closing a descriptor of a file drops the locks that this process's other connections have on it."""


def open_database(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a session database, made where it is missing; blocks, and only the calling thread may use the connection.

    `synchronous=FULL`, for with `NORMAL` a power cut takes back what was committed; what is deleted is overwritten.

    Args:
        path: The file; directories that are missing are made private to their owner.
        busy_timeout_s: Seconds to wait for other connections.

    Raises:
        NewerFormatError: A newer ctxkit made it; it was not touched.
        StoreReadError: It is the database of another program.
        OSError: It is a link, or no plain file, or cannot be made.
        sqlite3.Error: It cannot be read or written.
    """
    with _opening:
        _make_private(path)
        connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        with _transaction(connection, "BEGIN"):
            version = _check_ours(connection, path)
        _switch_to_wal(connection, busy_timeout_s)
        for setting in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}")
        if version == 0:
            _create(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    with Directory.at(path.parent, create=True) as folder:
        for suffix in ("", *_BESIDE):
            _check_plain(folder.status(path.name + suffix))
        if folder.status(path.name) is None:
            try:
                os.close(folder.open(path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return  # another process has just made it, as privately
            folder.sync()
            return
        for suffix in ("", *_BESIDE):
            found = folder.status(path.name + suffix)
            if found is not None and found.st_mode & _OTHERS:
                os.chmod(f"{path}{suffix}", PRIVATE_FILE)  # noqa: PTH101 - no descriptor: see `_opening`


def _check_plain(status: os.stat_result | None) -> None:
    """Refuse what SQLite would follow, or write through, to somewhere else."""
    if status is not None and (not stat.S_ISREG(status.st_mode) or status.st_nlink > 1):
        msg = "it, or a file of SQLite's beside it, is no plain file of one name"
        raise OSError(msg)


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version, 0 where the database is new; call it in a transaction, for others may be making it right now."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != _APPLICATION and (application or tables):
        msg = f"{str(path)!r} is the database of another program: give the sessions a file of their own."
        raise StoreReadError(msg)
    if version > VERSION:
        msg = (
            f"{str(path)!r} has format {version!r}, and this ctxkit knows formats up to {VERSION}: a newer one made it. "
            "Update ctxkit; the file was not touched."
        )
        raise NewerFormatError(msg)
    return version


def _switch_to_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Use a write-ahead log; a file system that has none for SQLite keeps the rollback journal, as durable but slower."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as exc:
            # SQLite does not wait here for another connection that switches at the same time.
            if getattr(exc, "sqlite_errorcode", 0) & _PRIMARY_CODE not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _create(connection: sqlite3.Connection, path: Path) -> None:
    with _transaction(connection, "BEGIN IMMEDIATE"):
        if _check_ours(connection, path) == 0:
            for statement in _SCHEMA:
                connection.execute(statement)
