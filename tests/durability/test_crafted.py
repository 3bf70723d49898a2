"""R5: files that somebody wrote with care: the checksum fits, the JSON is good, and what it says is absurd.

The agent's own tools write in the same directories, and a prompt may tell them to.
"""

import asyncio
import json
import sqlite3
import zlib
from collections.abc import Coroutine
from pathlib import Path

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import BLOB, FileStore, Record, lines
from ctxkit.sessions import SessionLocks, SqliteSessionStore, TranscriptSessionStore

SESSION = "s"
STATE = {"session_id": SESSION, "summary": "so far", "context": [{"id": "m", "role": "assistant", "content": []}]}
HUGE = "1" + "0" * 400
NUMBERS = ["-1", "0", "1.5", "1e999", "-1e999", "NaN", "1e308", HUGE, "1" + "0" * 30, "true", "null", '"x"', "[]", "{}"]
"""What may stand where a number is looked for."""

pytestmark = [pytest.mark.crash, pytest.mark.row("X1", "X17")]


async def told(*calls: Coroutine[object, object, object]) -> None:
    """Make all the calls, one after another; each is answered, or says why not by an error of stores."""
    unexpected = []
    for call in calls:
        try:
            await call
        except StoreError:
            continue
        except Exception as exc:  # noqa: BLE001 - raised again, when all were made
            unexpected.append(exc)
    if unexpected:
        raise ExceptionGroup("no store error", unexpected)


def sealed(head: bytes) -> bytes:
    """Return a line with a checksum that fits."""
    return b'%s,"c":"%08x"}}\n' % (head, zlib.crc32(head))


LINES = {
    "key that is no JSON": sealed(b'{"a":1,"_ctxkit":{"k":"\\q","n":1'),
    "key that is no UTF-8": sealed(b'{"a":1,"_ctxkit":{"k":"\xff","n":1'),
    "key with a control character": sealed(b'{"a":1,"_ctxkit":{"k":"\x01","n":1'),
    "key of a lone surrogate": sealed(b'{"a":1,"_ctxkit":{"k":"\\ud800","n":1'),
    "empty key": sealed(b'{"a":1,"_ctxkit":{"k":"","n":1'),
    "largest number": sealed(b'{"a":1,"_ctxkit":{"k":"x","n":999999999999999'),
    "body that is no JSON": sealed(b'{nobody,"_ctxkit":{"k":"x","n":1'),
    "body that is no UTF-8": sealed(b'{"\xff":1,"_ctxkit":{"k":"x","n":1'),
    "body without an opening": sealed(b'"a":1,"_ctxkit":{"k":"x","n":1'),
    "call of a billion records": sealed(b'{"a":1,"_ctxkit":{"k":"x","m":999999999,"n":1'),
    "file that is not there": sealed(
        b'{"_ctxkit_spill":"context.record-0000.json","_ctxkit":{"k":"x","b":999999999999999,"n":1'
    ),
    "file elsewhere": sealed(b'{"_ctxkit_spill":"../../../outside.json","_ctxkit":{"k":"x","b":7,"n":1'),
    "file of another kind": sealed(b'{"_ctxkit_spill":"context.record-a/../../x.json","_ctxkit":{"k":"x","b":7,"n":1'),
    "number of no records": sealed(b'{"a":1,"_ctxkit":{"k":"x","n":0'),
}


@pytest.mark.parametrize("planted", LINES.values(), ids=LINES)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_crafted_line_costs_no_record_before_or_behind_it(quick, planted, at):
    asyncio.run(look(quick, planted, at))


async def look(root: Path, planted: bytes, at: int) -> None:
    folder = root / "sessions" / SESSION
    folder.mkdir(parents=True)
    good = [lines.seal(b'{"id":"m%d"}' % n, Record(key=f"m{n}", body="{}"), n + 1) for n in range(2)]
    (folder / "context.jsonl").write_bytes(b"".join([*good[:at], planted, *good[at:]]))
    wanted = {"m0", "m1"}
    for turn in range(3):
        store = FileStore(root)
        try:
            assert wanted <= await keys(store)
            await store.append(SESSION, [Record(key=f"new{turn}", body='{"id":"new"}')])
            wanted.add(f"new{turn}")
            assert wanted <= await keys(store)
        finally:
            await store.aclose()


async def keys(store: FileStore) -> set[str]:
    """Return the keys of what can be listed, after all of it was read."""
    found = [entry async for entry in store.list(SESSION) if entry.kind != BLOB]
    for entry in found:
        try:
            await store.get(entry.reference, entry.offset, entry.size)
        except StoreError:
            assert entry.key == "x"
    numbers = [entry.sequence for entry in found]
    assert numbers == sorted(set(numbers))
    return {entry.key or "" for entry in found}


EPOCHS = [
    *(f'{{"epoch":{number}}}' for number in NUMBERS),
    "[" * 999,
    '{"epoch":' + "[" * 900,
    "",
    "{}",
    "[]",
    "\x00" * 999,
]


@pytest.mark.parametrize("content", EPOCHS)
def test_a_crafted_fence_is_told_and_never_lets_a_stale_owner_in(quick, content):
    asyncio.run(_fence(quick, content))


async def _fence(root: Path, content: str) -> None:
    store = FileStore(root / "store")
    owner = await store.fence(SESSION, 5)
    (root / "store/sessions/s/.epoch").write_text(content)
    await told(
        owner.append(SESSION, [Record(key="a", body='{"id":"a"}')]),
        owner.put(SESSION, "a.txt", b"a"),
        store.fence(SESSION, 6),
        store.append(SESSION, [Record(key="b", body='{"id":"b"}')]),
    )
    await store.aclose()
    sessions = TranscriptSessionStore(root / "sessions")
    await sessions.save(SESSION, STATE, epoch=5)
    (root / "sessions/agents/main/sessions/.fences/s/.epoch").write_text(content)
    await told(sessions.save(SESSION, STATE, epoch=6), sessions.fence(SESSION, 7), sessions.epoch(SESSION))
    assert (await sessions.load(SESSION)).state == STATE
    await sessions.aclose()


ROWS = [f'{{"sessionId":"s","updatedAt":{number},"stamp":STAMP}}' for number in NUMBERS] + [
    f'{{"sessionId":"s","updatedAt":1,"{name}":{number},"stamp":STAMP}}'
    for name in ("contextTokens", "size", "compactionCount", "delivery", "sessionFile", "transcript", "version")
    for number in [*NUMBERS, "[1e999,1]", f"[{HUGE},{HUGE}]", "[9000000000000000000,1]"]
]


@pytest.mark.parametrize("row", ROWS)
def test_a_crafted_row_hides_no_session_and_crashes_nothing(quick, row):
    asyncio.run(_row(quick, row))


async def _row(root: Path, row: str) -> None:
    """Put the row into the index, the saved state and the database."""
    store = TranscriptSessionStore(root)
    await store.save(SESSION, STATE)
    await store.save("other", STATE)
    await store.aclose()
    folder = root / "agents/main/sessions"
    status = (folder / "s.state.json").stat()
    stamp = json.dumps(f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")
    (folder / "sessions.json").write_text('{\n"s":' + row.replace("STAMP", stamp) + "\n}\n")
    await _use_all(TranscriptSessionStore(root))
    text = json.dumps(STATE)[:-1]
    (folder / "s.state.json").write_text(f'{text},"_ctxkit":{row.replace("STAMP", "1")}}}')
    await _use_all(TranscriptSessionStore(root))
    base = SqliteSessionStore(root / "s.db")
    await base.save(SESSION, STATE)
    await base.save("other", STATE)
    await base.aclose()
    connection = sqlite3.connect(root / "s.db")
    connection.execute("UPDATE sessions SET entry = ? WHERE key = 's'", (row,))
    connection.commit()
    connection.close()
    await _use_all(SqliteSessionStore(root / "s.db"), lists=False)


async def _use_all(store: TranscriptSessionStore | SqliteSessionStore, *, lists: bool = True) -> None:
    try:
        assert (await store.load("other")).state == STATE
        try:
            assert {row.session_id async for row in store.list()} == {SESSION, "other"}
        except StoreError:
            assert not lists
        await told(store.load(SESSION), store.peek(SESSION), store.save(SESSION, STATE), store.load(SESSION))
    finally:
        await store.aclose()


TABLES = [
    "UPDATE sessions SET state = 7",
    "UPDATE sessions SET state = x'ff'",
    "UPDATE sessions SET entry = 7",
    "UPDATE sessions SET entry = x'ff'",
    "UPDATE sessions SET entry = '" + "[" * 5000 + "'",
    "UPDATE sessions SET state = '" + "[" * 5000 + "'",
    "UPDATE sessions SET updated_ms = 'x'",
    "UPDATE sessions SET trashed_ms = 'x'",
    "UPDATE sessions SET trashed_ms = 1e300",
    "UPDATE epochs SET epoch = 'x'",
    "UPDATE epochs SET epoch = 1e300",
    "UPDATE epochs SET epoch = x'ff'",
    "DROP TABLE epochs",
    "DROP TABLE sessions",
    "ALTER TABLE sessions DROP COLUMN updated_ms",
    "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM sessions; END",
]


@pytest.mark.parametrize("statement", TABLES)
def test_a_crafted_table_is_told(quick, statement):
    asyncio.run(_table(quick / "s.db", statement))


async def _table(path: Path, statement: str) -> None:
    store = SqliteSessionStore(path)
    await store.save(SESSION, STATE, epoch=5)
    await store.aclose()
    connection = sqlite3.connect(path)
    if statement.startswith("ALTER"):
        connection.execute("DROP INDEX sessions_by_time")
    connection.execute(statement)
    connection.commit()
    connection.close()
    store = SqliteSessionStore(path)

    async def rows() -> None:
        async for row in store.list():
            assert row.session_id == SESSION

    async def trashed() -> None:
        async for row in store.trashed():
            assert row.session_id == SESSION

    await told(
        store.load(SESSION), store.peek(SESSION), rows(), trashed(), store.epoch(SESSION), store.fence(SESSION, 6),
        store.save(SESSION, STATE, epoch=7), store.trash(SESSION), store.untrash(SESSION),
        store.purge(SESSION, trashed_before=1.0), store.delete(SESSION),
    )  # fmt: skip
    await store.aclose()


@pytest.mark.parametrize("number", [10**12, 2**53, 2**63 - 1, 2**63, 10**30, 10**34])
def test_an_epoch_in_a_crafted_lock_file_crashes_no_store(quick, number):
    asyncio.run(_lock(quick, number))


async def _lock(root: Path, number: int) -> None:
    path = root / "s.lock"
    slots = []
    for opening, ending in ((b',"fence":[', b""), (b",", b"]}")):
        body = b'%s{"epoch":%d,"crc":"%08x"}' % (opening, number, zlib.crc32(b"%d" % number))
        slots.append(body.ljust(63 - len(ending)) + ending + b"\n")
    path.write_bytes(b"{}".ljust(1023) + b"\n" + b"".join(slots))
    async with SessionLocks(timeout_s=0.5) as locks:
        hold = await locks.take(SESSION, owner=object(), path=path)
        for store in (SqliteSessionStore(root / "s.db"), TranscriptSessionStore(root / "t")):
            await told(store.save(SESSION, STATE, epoch=hold.epoch))
            await store.aclose()
        first = hold.epoch
        await hold.release()
        hold = await locks.take(SESSION, owner=object(), path=path)
        assert hold.epoch > first
        await hold.release()
