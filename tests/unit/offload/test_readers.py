"""Stores that only read, while others write, die and delete: what they have learnt may not be so any more."""

import json

import pytest

from ctxkit.offload import BLOB, FileStore

from .samples import record


async def listed(store: FileStore) -> list[tuple[str, str]]:
    """Return the key of each record, and the id in the body that is given for it."""
    entries = [entry async for entry in store.list("s") if entry.kind != BLOB]
    bodies = [await store.get(entry.reference, entry.offset, entry.size) for entry in entries]
    return [(str(entry.key).split(":")[0], json.loads(body)["id"]) for entry, body in zip(entries, bodies, strict=True)]


@pytest.mark.parametrize("text", ["x", "longer than before"])
@pytest.mark.asyncio
async def test_a_reader_follows_a_session_that_was_deleted_and_begun_anew(tmp_path, text):
    """A file system may give the inode of the old log to the new one, and that may be as large or larger."""
    writer, reader = FileStore(tmp_path), FileStore(tmp_path)
    await writer.append("s", [record("old-1"), record("old-2")])
    assert await listed(reader) == [("old-1", "old-1"), ("old-2", "old-2")]
    await writer.delete("s")
    await writer.append("s", [record("new-1", text), record("new-2", text)])
    assert await listed(reader) == [("new-1", "new-1"), ("new-2", "new-2")]


@pytest.mark.asyncio
async def test_a_reader_that_has_seen_a_torn_call_follows_those_who_cut_it_off(tmp_path):
    writer, reader = FileStore(tmp_path), FileStore(tmp_path)
    await writer.append("s", [record("a")])
    await writer.append("s", [record("torn-1"), record("torn-2"), record("torn-3")])
    await writer.aclose()
    log = tmp_path / "sessions/s/context.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))  # killed before it had written the last
    assert await listed(reader) == [("a", "a")]
    other = FileStore(tmp_path)
    for name in "bcdef":
        await other.append("s", [record(name, "another length")])
    assert await listed(reader) == [(name, name) for name in "abcdef"]


@pytest.mark.asyncio
async def test_a_line_that_took_the_very_place_of_a_torn_one_is_not_taken_for_it(tmp_path):
    first, second = FileStore(tmp_path), FileStore(tmp_path)
    await first.append("s", [record("a")])
    log = tmp_path / "sessions/s/context.jsonl"
    start = log.stat().st_size
    await second.append("s", [record("b")])
    whole = log.read_bytes()
    log.write_bytes(whole[:start] + b"{" * (len(whole) - start))  # as long as what is written in its place
    assert await listed(first) == [("a", "a")]
    log.write_bytes(whole)
    await first.append("s", [record("c")])
    assert await listed(FileStore(tmp_path)) == [("a", "a"), ("b", "b"), ("c", "c")]
