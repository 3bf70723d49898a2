"""What the store in SQLite promises beyond the others: one private file, left alone where it is not ours or damaged."""

import asyncio
import os
import sqlite3
import stat

import pytest

from ctxkit.errors import NewerFormatError, StoreReadError, StoreWriteError
from ctxkit.sessions import SessionEntry, SqliteSessionStore
from ctxkit.sessions.sqlite.file import open_database

from .states import Clock, state, talk

posix = pytest.mark.skipif(os.name != "posix", reason="links, modes and forks are POSIX")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep/er/sessions.db"


@pytest.fixture
def store(path):
    store = SqliteSessionStore(path, clock=Clock())
    yield store
    asyncio.run(store.aclose())


def one_value(path, query):
    with sqlite3.connect(path) as connection:
        found = connection.execute(query).fetchone()[0]
    connection.close()
    return found


def pragma(store, name):
    return store._open().execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.asyncio
@pytest.mark.row("C8")
async def test_a_commit_is_synced_and_the_state_column_is_agentscopes_json(store, path):
    await store.save("s", state(*talk(2)))
    assert await store._worker.run(lambda: pragma(store, "journal_mode")) == "wal"
    assert await store._worker.run(lambda: pragma(store, "synchronous")) == 2  # FULL
    assert await store._worker.run(lambda: pragma(store, "secure_delete")) == 1
    await store.aclose()
    assert one_value(path, "SELECT json_extract(state, '$.context[3].content[0].text') FROM sessions") == "answer 1"
    assert one_value(path, "PRAGMA user_version") == 1
    assert store.lock_path("s") == f"{path}.locks/s.lock"


@posix
@pytest.mark.asyncio
async def test_the_database_is_private_to_its_owner_whatever_the_umask(tmp_path, store, path):
    before = os.umask(0)
    try:
        await store.save("s", state(*talk(1)))
        files = list(tmp_path.rglob("*"))
    finally:
        os.umask(before)
    assert {one.name for one in files} >= {"sessions.db", "sessions.db-wal"}
    for one in files:
        assert stat.S_IMODE(one.stat().st_mode) == (0o700 if one.is_dir() else 0o600), one
    await store.aclose()
    path.chmod(0o644)
    await store.load("s")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["link", "hard link", "pipe", "directory"])
async def test_what_is_no_plain_file_is_not_opened(tmp_path, path, store, how):
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    path.parent.mkdir(parents=True)
    if how == "link":
        path.symlink_to(victim)
    elif how == "hard link":
        path.hardlink_to(victim)
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(StoreWriteError, match=r"sessions\.db"):
        await store.save("s", state(*talk(1)))
    with pytest.raises(StoreReadError):
        await store.load("s")
    assert victim.read_bytes() == b""


@pytest.mark.asyncio
async def test_a_newer_format_is_refused_and_not_touched(store, path):
    await store.save("s", state(*talk(1)))
    await store.aclose()
    one_value(path, "SELECT 1")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerFormatError, match="Update ctxkit"):
        await store.load("s")
    with pytest.raises(NewerFormatError):
        _ = [row async for row in store.list()]
    with pytest.raises(StoreWriteError, match="Update ctxkit"):
        await store.save("s", state(*talk(2)))
    assert path.read_bytes() == before


@pytest.mark.asyncio
async def test_the_database_of_another_program_is_left_alone(store, path):
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreWriteError, match="another program"):
        await store.save("s", state(*talk(2)))
    with pytest.raises(StoreReadError, match="another program"):
        await store.load("s")
    assert path.read_bytes() == before


@pytest.mark.asyncio
@pytest.mark.parametrize("damage", [b"no database at all, and long enough to be looked at" * 50, b"\0" * 8192, None])
async def test_a_damaged_database_is_a_clear_error_and_never_removed(store, path, damage):
    for number in range(40):
        await store.save(f"s{number}", state(*talk(20)))
    await store.aclose()
    data = damage or path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096)
    path.write_bytes(data)
    if damage is None or damage[:1] != b"\0":
        with pytest.raises(StoreReadError, match="damaged"):
            _ = [row async for row in store.list()]
        with pytest.raises(StoreReadError, match="damaged"):
            await store.load("s1")
        with pytest.raises(StoreWriteError, match="damaged"):
            await store.save("s1", state(*talk(1)))
        assert path.read_bytes()[: len(data)] == data
    else:
        with pytest.raises((StoreReadError, StoreWriteError)):
            await store.load("s1")
        assert path.read_bytes() == data


@pytest.mark.asyncio
async def test_a_database_that_was_removed_is_made_anew_not_written_to_where_nobody_finds_it(store, path):
    await store.save("s", state(*talk(1)))
    for file in path.parent.iterdir():
        file.unlink()
    assert await store.load("s") is None
    await store.save("s", state(*talk(2)))
    other = SqliteSessionStore(path)
    assert (await other.load("s")).state == state(*talk(2))
    await other.aclose()


@pytest.mark.asyncio
async def test_a_writer_that_waits_for_another_one_too_long_says_so(path, store):
    await store.save("s", state(*talk(1)))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    impatient = SqliteSessionStore(path, busy_timeout_s=0.05)
    with pytest.raises(StoreWriteError, match="busy_timeout_s"):
        await impatient.save("s", state(*talk(2)))
    assert (await impatient.load("s")).state == state(*talk(1))
    other.execute("ROLLBACK")
    other.close()
    await impatient.save("s", state(*talk(2)))
    await impatient.aclose()
    assert (await store.load("s")).state == state(*talk(2))


@pytest.mark.asyncio
async def test_a_close_that_is_cancelled_while_a_save_waits_closes_all_the_same(path, store):
    await store.save("s", state(*talk(1)))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    saving = asyncio.create_task(store.save("s", state(*talk(2))))
    closing = asyncio.create_task(store.aclose())
    for _ in range(3):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    other.execute("ROLLBACK")
    other.close()
    await saving
    assert closing.cancelled()
    assert (await store.load("s")).state == state(*talk(2))


@pytest.mark.asyncio
async def test_what_was_deleted_is_in_none_of_the_files(store, path):
    secret = "PURPLE-ELEPHANT-4711"
    await store.save("s", state(*talk(1), summary=secret))
    await store.save("t", state(*talk(1), summary="x" * 10_000), entry=SessionEntry(session_id="t", updated_at=0.0))
    await store.delete("s")
    assert not any(secret.encode() in file.read_bytes() for file in path.parent.iterdir())


@posix
@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_opens_the_database_for_itself(store):
    await store.save("s", state(*talk(1)))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            store._save("s", state(*talk(2)), None, None)
            code = 0
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (await store.load("s")).state == state(*talk(2))
    await store.save("s", state(*talk(3)))
    assert (await store.load("s")).state == state(*talk(3))


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_that_make_the_database_at_the_same_moment_all_open_it(tmp_path):
    for number in range(8):
        path = tmp_path / f"{number}.db"
        waiting, go = os.pipe()
        children = []
        for _ in range(6):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    os.close(go)
                    os.read(waiting, 1)
                    open_database(path, busy_timeout_s=10).close()
                    code = 0
                finally:
                    os._exit(code)
            children.append(pid)
        os.close(waiting)
        os.close(go)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert codes == [0] * 6
