"""Logs in several files, and records in files of their own."""

import asyncio
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.offload import BLOB, FileLimits, FileStore, read_records
from ctxkit.offload.files import log_index

from .samples import ids, record

SMALL = FileLimits(segment_bytes=500)


@pytest.mark.asyncio
async def test_a_log_that_has_grown_goes_on_in_a_new_file_and_its_numbers_run_on(tmp_path):
    store = FileStore(tmp_path, limits=SMALL)
    first = store.reference("s")
    assert {await store.append("s", [record(f"m{number}", "x" * 100)]) for number in range(20)} == {first}
    folder = tmp_path / "sessions/s"
    in_order = ["context.jsonl", *(f"context-{number:04}.jsonl" for number in range(2, 8))]
    assert {path.name for path in folder.iterdir()} == {".lock", *in_order}
    lines = [json.loads(line) for name in in_order for line in (folder / name).read_bytes().splitlines()]
    assert [line["_ctxkit"]["n"] for line in lines] == list(range(1, 21))
    for other in (store, FileStore(tmp_path)):
        assert await ids(other) == [f"m{number}" for number in range(20)]
        entries = [entry async for entry in other.list("s", after=18)]
        assert [entry.reference for entry in entries] == [str(folder / "context-0007.jsonl")] * 2


@pytest.mark.asyncio
async def test_a_closed_file_is_neither_changed_nor_read_again(tmp_path, monkeypatch):
    store = FileStore(tmp_path, limits=SMALL)
    for number in range(10):
        await store.append("s", [record(f"m{number}", "x" * 100)])
    closed = tmp_path / "sessions/s/context.jsonl"
    before = closed.read_bytes(), closed.stat().st_mtime_ns
    real, read = log_index.read_at, []

    def watched(descriptor: int, length: int, offset: int) -> bytes:
        read.append(os.fstat(descriptor).st_ino)
        return real(descriptor, length, offset)

    monkeypatch.setattr(log_index, "read_at", watched)
    await FileStore(tmp_path, limits=SMALL).append("s", [record("by-another", "x" * 100)])
    read.clear()
    await store.append("s", [record("m10")])
    assert len([entry async for entry in store.list("s")]) == 12
    assert read
    assert closed.stat().st_ino not in read
    assert (closed.read_bytes(), closed.stat().st_mtime_ns) == before


@pytest.mark.asyncio
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 900)), max_size=25),
    limits=st.tuples(st.integers(1, 2000), st.integers(1, 2000)),
)
async def test_two_stores_with_other_limits_on_one_session_are_one_list_without_repeats(
    tmp_path_factory, writes, limits
):
    root = tmp_path_factory.mktemp("root")
    stores = [FileStore(root, limits=FileLimits(segment_bytes=size, record_bytes=400)) for size in limits]
    model: dict[str, str] = {}
    for which, number, size in writes:
        one = record(f"m{number}", "x" * size)
        await stores[which].append("s", [one])
        model.setdefault(one.key, one.body)
    for store in (*stores, FileStore(root)):
        entries = [entry async for entry in store.list("s")]
        assert [entry.key for entry in entries] == list(model)
        assert [entry.sequence for entry in entries] == list(range(1, len(model) + 1))
        bodies = [json.loads(data) async for _, data in read_records(store, entries)]
        assert [{"id": body["id"], "text": body["text"]} for body in bodies] == [
            json.loads(one) for one in model.values()
        ]
        await store.aclose()


@pytest.mark.asyncio
async def test_a_record_that_is_too_big_for_a_line_is_named_by_its_line_and_no_blob(tmp_path):
    store = FileStore(tmp_path, limits=FileLimits(record_bytes=1000))
    big = record("big", "x" * 1000)
    await store.append("s", [record("a"), big, record("b")])
    await FileStore(tmp_path).append("s", [big])
    listed = [entry async for entry in FileStore(tmp_path).list("s")]
    assert [(entry.key, entry.sequence) for entry in listed] == [
        (record("a").key, 1),
        (big.key, 2),
        (record("b").key, 3),
    ]
    assert (listed[1].offset, listed[1].size) == (0, len(big.body))
    assert await store.get(listed[1].reference, listed[1].offset, listed[1].size) == big.body.encode()
    assert await ids(store) == ["a", "big", "b"]
    line = json.loads((tmp_path / "sessions/s/context.jsonl").read_bytes().splitlines()[1])
    assert (tmp_path / "sessions/s" / line["_ctxkit_spill"]).read_bytes() == big.body.encode()
    assert BLOB not in [entry.kind for entry in listed]


@pytest.mark.asyncio
async def test_a_body_that_imitates_a_named_file_is_kept_as_a_body(tmp_path):
    store = FileStore(tmp_path)
    body = '{"_ctxkit_spill":"context.record-00.json","id":"m"}'
    one = record("m")
    await store.append("s", [type(one)(key="k", body=body)])
    [entry] = [entry async for entry in FileStore(tmp_path).list("s")]
    assert entry.reference == store.reference("s")
    found = json.loads(await store.get(entry.reference, entry.offset, entry.size))
    assert found["_ctxkit_spill"] == "context.record-00.json"


@pytest.mark.asyncio
async def test_big_records_do_not_hold_up_the_event_loop_while_they_are_encoded(tmp_path):
    store = FileStore(tmp_path)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await store.append("s", [record("big", "x" * 1_000_000)])
    counting.cancel()
    assert turns > 30
