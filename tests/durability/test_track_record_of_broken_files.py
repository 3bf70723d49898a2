"""R8: what broken and crafted files, links and ids once did to the stores, one test each."""

import asyncio
import os
import sqlite3
import zlib

import pytest

from ctxkit.errors import StoreError, StoreReadError, StoreWriteError
from ctxkit.offload import FileStore, MemoryStore, Record, lines
from ctxkit.sessions import SqliteSessionStore
from ctxkit.sessions.encoding import decode_state, encode_state
from ctxkit.sessions.rows import row_from_json

pytestmark = [pytest.mark.crash, pytest.mark.row("X1", "X17")]

GOOD = lines.seal(b'{"id":"m"}', Record(key="m", body="{}"), 1)


def sealed(head: bytes) -> bytes:
    return b'%s,"c":"%08x"}}\n' % (head, zlib.crc32(head))


def test_a_log_with_the_line_breaks_of_another_system_lost_all_its_records():
    found = lines.unseal(GOOD.replace(b"\n", b"\r"))
    assert found is not None
    assert (found.key, found.body) == ("m", b'{"id":"m"}')


def test_a_key_that_is_no_json_with_a_checksum_that_fits_made_a_session_unreadable():
    assert lines.examine(sealed(b'{"a":1,"_ctxkit":{"k":"\\q","n":1').rstrip(b"\n")) is None


def test_a_record_with_the_largest_number_made_the_next_one_unreadable_when_it_was_opened_again(quick):
    folder = quick / "sessions" / "s"
    folder.mkdir(parents=True)
    (folder / "context.jsonl").write_bytes(sealed(b'{"a":1,"_ctxkit":{"k":"x","n":999999999999999'))

    async def keys() -> list[str | None]:
        store = FileStore(quick)
        await store.append("s", [Record(key="new", body='{"id":"new"}')])
        found = [entry.key async for entry in store.list("s")]
        await store.aclose()
        return found

    assert asyncio.run(keys()) == asyncio.run(keys()) == ["x", "new"]


@pytest.mark.parametrize("content", ["{}", '{"epoch":1e999}', '{"epoch":"x"}', '{"epoch":null}', "[" * 999])
def test_a_fence_of_an_absurd_value_raised_what_is_no_error_of_stores(quick, content):
    async def run() -> None:
        store = FileStore(quick)
        owner = await store.fence("s", 5)
        await asyncio.to_thread((quick / "sessions/s/.epoch").write_text, content)
        with pytest.raises(StoreError):
            await owner.append("s", [Record(key="a", body='{"id":"a"}')])
        await store.aclose()

    asyncio.run(run())


def test_a_time_of_400_digits_in_a_row_hid_all_sessions():
    with pytest.raises(ValueError, match="no row of a session"):
        row_from_json({"sessionId": "s", "updatedAt": 10**400})


def test_a_state_that_had_lost_a_comma_was_taken_for_whole():
    data = encode_state({"session_id": "s", "context": [{"id": "a"}, {"id": "b"}]})
    with pytest.raises(ValueError, match="delimiter"):
        decode_state(data.replace(b",\n", b"\n"))


def test_a_value_of_another_type_in_a_table_raised_what_is_no_error_of_stores(quick):
    async def run() -> None:
        store = SqliteSessionStore(quick / "s.db")
        await store.save("s", {"session_id": "s", "context": []})
        await store.aclose()
        with sqlite3.connect(quick / "s.db") as connection:
            connection.execute("UPDATE sessions SET state = x'ff'")
        connection.close()
        with pytest.raises(StoreReadError):
            await store.load("s")
        await store.aclose()

    asyncio.run(run())


@pytest.mark.skipif(not hasattr(os, "link"), reason="the system has no hard links")
def test_a_file_outside_was_overwritten_by_a_hard_link_beside_a_database(quick):
    outside = quick / "outside"
    outside.write_text("untouched")
    (quick / "s.db-shm").hardlink_to(outside)

    async def run() -> None:
        store = SqliteSessionStore(quick / "s.db")
        with pytest.raises(StoreWriteError):
            await store.save("s", {"session_id": "s", "context": []})
        await store.aclose()

    asyncio.run(run())
    assert outside.read_text() == "untouched"


@pytest.mark.parametrize("name", ["../x", "a\x00b", "\ud800", "/etc/passwd"])
def test_a_reference_for_a_name_that_no_blob_may_have_looked_outside(quick, name):
    for store in (FileStore(quick), MemoryStore()):
        store.reference("s", "there.txt", b"x")
        with pytest.raises(StoreWriteError):
            store.reference("s", name, b"x")
