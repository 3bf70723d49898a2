"""Blobs in chunks, ranges of files, and text that is looked for."""

import asyncio
import errno
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.errors import RecordNotFoundError, StoreWriteError
from ctxkit.offload import FileLimits, FileStore, MemoryStore
from ctxkit.offload.files import blobs

from .samples import record


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    limits = FileLimits(segment_bytes=2000, record_bytes=3000)
    return FileStore(tmp_path / "root", limits=limits) if request.param == "files" else MemoryStore()


async def chunks(*data: bytes):
    for one in data:
        yield one


@pytest.mark.asyncio
async def test_chunks_and_the_whole_are_the_same_blob(store):
    reference = await store.put("s", "x.txt", b"onetwo")
    assert await store.put_chunks("s", "x.txt", chunks(b"one", b"", b"two")) == reference
    other = await store.put_chunks("s", "x.txt", chunks(b"three"))
    assert await store.put("s", "x.txt", b"three") == other != reference
    assert await store.get(other) == b"three"
    assert await store.get(await store.put_chunks(None, "empty.txt", chunks())) == b""
    with pytest.raises(StoreWriteError, match="no name"):
        await store.put_chunks("s", "../x", chunks(b"x"))


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["context.jsonl", "context-0002.jsonl", "context.record-00.json", ".lock", "a/b", ""])
async def test_names_of_the_log_and_paths_are_no_names_of_blobs(store, name):
    with pytest.raises(StoreWriteError, match="no name"):
        await store.put("s", name, b"x")


@pytest.mark.asyncio
async def test_of_a_blob_whose_source_fails_or_is_cancelled_nothing_is_left(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])

    async def failing():
        yield b"half"
        raise ValueError("source")

    with pytest.raises(ValueError, match="source"):
        await store.put_chunks("s", "x.txt", failing())
    never = asyncio.Event()

    async def hanging():
        yield b"half"
        reached.set()
        await never.wait()

    reached = asyncio.Event()
    task = asyncio.create_task(store.put_chunks("s", "x.txt", hanging()))
    await reached.wait()
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)

    def fail(_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(blobs, "sync_file", fail)
    with pytest.raises(StoreWriteError, match="ENOSPC"):
        await store.put_chunks("s", "x.txt", chunks(b"x"))
    await store.aclose()
    assert sorted(path.name for path in (tmp_path / "sessions/s").iterdir()) == [".lock", "context.jsonl"]


@pytest.mark.asyncio
async def test_a_blob_in_chunks_is_never_in_memory_as_a_whole(tmp_path):
    store = FileStore(tmp_path)

    async def much():
        for _ in range(64):
            yield bytes(1 << 20)

    tracemalloc.start()
    try:
        reference = await store.put_chunks("s", "big.bin", much())
        assert len(await store.get(reference, 60 << 20, 100)) == 100
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.asyncio
async def test_a_read_may_be_cancelled_at_any_moment(tmp_path):
    store = FileStore(tmp_path)
    reference = await store.put("s", "big.bin", bytes(5 << 20))
    for turns in range(12):
        task = asyncio.create_task(store.get(reference))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await store.get(reference) == bytes(5 << 20)
    assert await store.get(reference, 10, 0) == b""
    with pytest.raises(RecordNotFoundError):
        await store.get(reference + "x", 0, 0)


@pytest.mark.asyncio
async def test_text_is_found_in_records_the_newest_first_and_then_in_blobs(store):
    await store.append("s", [record(f"m{number}", "Needle é" if number % 7 == 0 else "hay") for number in range(30)])
    await store.append("s", [record("big", "x" * 5000 + "NEEDLE É")])
    await store.put("s", "a.txt", b"x" * 700_000 + "needle é".encode() + b"x" * 700_000)
    await store.put("s", "b.txt", b"hay")
    await store.append("t", [record("other", "needle é")])
    found = [entry async for entry in store.search("s", "nEEDLE é")]
    keys = [entry.key for entry in found]
    expected = [record(f"m{number}", "Needle é").key for number in (28, 21, 14, 7, 0)]
    assert keys == [*expected, None]
    assert found[-1].name == "a.txt"
    assert [entry.key async for entry in store.search("s", "NEEDLE É")] == [record("big", "x" * 5000 + "NEEDLE É").key]
    assert [entry async for entry in store.search("nobody", "x")] == []


@pytest.mark.asyncio
async def test_what_is_added_to_a_line_is_not_found_and_quotes_and_breaks_are(store):
    await store.append("s", [record("m", 'say "hi"\nthere')])
    assert [entry.sequence async for entry in store.search("s", 'SAY "hi"\nthere')] == [1]
    assert [entry async for entry in store.search("s", "_ctxkit")] == []


@pytest.mark.asyncio
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.integers(0, 300), text=st.text(min_size=1, max_size=20), piece=st.integers(1, 50))
async def test_text_is_found_wherever_the_pieces_end(before, text, piece):
    from ctxkit.offload.search import Needle

    data = b"." * before + text.encode("utf-8", "backslashreplace") + b"." * 20
    assert Needle(text).is_in(data[at : at + piece] for at in range(0, len(data), piece))
