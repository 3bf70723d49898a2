import pytest

from ctxkit.errors import ConfigError, StoreFullError
from ctxkit.offload import FileLimits, FileStore
from ctxkit.offload.files import limits

from .samples import ids, record


async def chunks(count: int, size: int):
    for _ in range(count):
        yield b"x" * size


@pytest.mark.asyncio
@pytest.mark.parametrize("limit", ["session_bytes", "workspace_bytes"])
async def test_over_a_limit_nothing_is_stored_and_the_error_says_which_and_what_to_do(tmp_path, limit):
    store = FileStore(tmp_path, limits=FileLimits(**{limit: 2000}))
    await store.append("s", [record("a", "x" * 500)])
    await store.put("s", "small.txt", b"x" * 500)
    told = rf"{limit}=2,000.*delete old sessions"
    with pytest.raises(StoreFullError, match=told):
        await store.append("s", [record("b"), record("c", "x" * 2000)])
    with pytest.raises(StoreFullError, match=told):
        await store.put("s", "big.txt", b"x" * 2000)
    with pytest.raises(StoreFullError, match=told):
        await store.put_chunks("s", "big.txt", chunks(20, 100))
    await store.append("s", [record("d")])
    assert await ids(store) == ["a", "d"]
    assert sorted(path.name for path in (tmp_path / "sessions/s").iterdir()) == [".lock", "context.jsonl", "small.txt"]


@pytest.mark.asyncio
async def test_what_does_not_fit_keeps_nobody_else_in_its_group_from_being_stored(tmp_path):
    import asyncio

    store = FileStore(tmp_path, limits=FileLimits(session_bytes=5000))
    sizes = [10, 9000, 20, 9000, 30]
    said = await asyncio.gather(
        *(store.append("s", [record(f"m{at}", "x" * size)]) for at, size in enumerate(sizes)), return_exceptions=True
    )
    assert [type(one) for one in said] == [str, StoreFullError, str, StoreFullError, str]
    assert await ids(store) == ["m0", "m2", "m4"]


@pytest.mark.asyncio
async def test_storing_the_same_again_needs_no_room(tmp_path):
    store = FileStore(tmp_path, limits=FileLimits(session_bytes=2000))
    await store.append("s", [record("a", "x" * 1500)])
    for _ in range(5):
        await store.append("s", [record("a", "x" * 1500)])
    assert await ids(store) == ["a"]


@pytest.mark.asyncio
async def test_what_others_have_stored_counts_and_deleting_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_RECOUNT_S", -1.0)
    small = FileLimits(workspace_bytes=3000)
    one, other = FileStore(tmp_path, limits=small), FileStore(tmp_path, limits=small)
    await one.append("s", [record("a", "x" * 2000)])
    with pytest.raises(StoreFullError):
        await other.append("t", [record("a", "x" * 2000)])
    await one.delete("s")
    await other.append("t", [record("a", "x" * 2000)])
    with pytest.raises(StoreFullError):
        await one.append("s", [record("a", "x" * 2000)])


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(value):
    with pytest.raises(ConfigError, match="session_bytes"):
        FileLimits(session_bytes=value)
