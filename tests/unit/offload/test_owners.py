"""Fences and leases: who has lost a session can no longer write it."""

import asyncio

import pytest

from ctxkit.errors import SessionLockedError, StaleOwnerError
from ctxkit.offload import FileStore, MemoryStore
from ctxkit.offload.capabilities import Deletes, Fences, Leases, Searches, Streams

from .samples import ids, record


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path / "root") if request.param == "files" else MemoryStore()


async def chunks(*data: bytes):
    for one in data:
        yield one


@pytest.mark.parametrize("capability", [Deletes, Fences, Leases, Searches, Streams])
@pytest.mark.asyncio
async def test_both_stores_and_their_fenced_views_offer_everything(store, capability):
    assert isinstance(store, capability)
    assert isinstance(await store.fence("s", 1), capability)


@pytest.mark.asyncio
async def test_a_former_owner_can_neither_append_nor_put_nor_delete_but_read(store):
    first = await store.fence("s", 1)
    await first.append("s", [record("a")])
    reference = await first.put("s", "x.txt", b"x")
    second = await store.fence("s", 2)
    for write in (
        lambda: first.append("s", [record("b")]),
        lambda: first.append("s", [record("a")]),
        lambda: first.put("s", "y.txt", b"y"),
        lambda: first.put("s", "x.txt", b"x"),
        lambda: first.put_chunks("s", "z.txt", chunks(b"z")),
        lambda: first.delete("s"),
        lambda: first.fence("s", 1),
    ):
        with pytest.raises(StaleOwnerError, match=r"epoch 2.*has 1"):
            await write()
    assert await ids(first) == ["a"]
    assert await first.get(reference) == b"x"
    await second.append("s", [record("c")])
    await store.append("s", [record("d")])
    assert await ids(store) == ["a", "c", "d"]
    assert [entry.name async for entry in store.list("s") if entry.name] == ["x.txt"]


@pytest.mark.asyncio
async def test_a_former_owner_cannot_bring_a_session_back_that_was_deleted(store):
    first = await store.fence("s", 1)
    await first.append("s", [record("a")])
    second = await store.fence("s", 2)
    await second.put("s", "x.txt", b"x")
    await second.delete("s")
    for write in (lambda: first.append("s", [record("a")]), lambda: first.put("s", "x.txt", b"x")):
        with pytest.raises(StaleOwnerError):
            await write()
    assert [entry async for entry in store.list("s")] == []
    await second.append("s", [record("b")])
    assert await ids(store) == ["b"]


@pytest.mark.asyncio
async def test_a_fence_is_raised_while_others_come_and_go_with_their_files(store):
    async def put(task: int) -> None:
        for number in range(40):
            await store.put("s", f"{task}.txt", b"%d" % number)

    writing = [asyncio.create_task(put(task)) for task in range(4)]
    for epoch in range(1, 60):
        await store.fence("s", epoch)
    await asyncio.gather(*writing)


@pytest.mark.asyncio
async def test_a_former_owner_may_go_on_in_other_sessions_and_in_what_they_share(store):
    first = await store.fence("s", 1)
    await store.fence("s", 2)
    await first.append("t", [record("a")])
    await first.put("t", "x.txt", b"x")
    await first.put(None, "x.png", b"x")
    assert await ids(store, "t") == ["a"]


@pytest.mark.asyncio
async def test_of_appends_that_wait_together_only_those_of_the_former_owner_are_refused(store):
    first, second = await store.fence("s", 1), await store.fence("s", 2)
    writers = [first, second, store] * 10
    said = await asyncio.gather(
        *(writer.append("s", [record(str(at))]) for at, writer in enumerate(writers)), return_exceptions=True
    )
    assert [isinstance(one, StaleOwnerError) for one in said] == [True, False, False] * 10
    assert sorted(map(int, await ids(store))) == [at for at in range(30) if at % 3]


@pytest.mark.asyncio
async def test_a_fence_holds_for_other_stores_on_the_same_files(tmp_path):
    first = await FileStore(tmp_path).fence("s", 1)
    await first.append("s", [record("a")])
    await FileStore(tmp_path).fence("s", 7)
    with pytest.raises(StaleOwnerError):
        await first.append("s", [record("b")])
    with pytest.raises(StaleOwnerError):
        await FileStore(tmp_path).fence("s", 6)
    again = await FileStore(tmp_path).fence("s", 7)
    await again.append("s", [record("c")])
    assert await ids(FileStore(tmp_path)) == ["a", "c"]


@pytest.mark.asyncio
async def test_one_owner_at_a_time_and_each_has_a_higher_epoch(store):
    lease = await store.lease("s", owner={"app": "one"}, ttl_s=60)
    assert not lease.is_lost
    with pytest.raises(SessionLockedError, match="one") as caught:
        await store.lease("s", owner={"app": "two"}, ttl_s=60)
    assert caught.value.holder is not None
    waiting = asyncio.create_task(store.lease("s", owner={"app": "two"}, ttl_s=60, timeout_s=10))
    await lease.renew()
    await lease.release()
    await lease.release()
    after = await waiting
    assert lease.is_lost
    assert after.epoch > lease.epoch
    other = await store.lease("t", owner={}, ttl_s=60)
    await asyncio.gather(after.release(), other.release())


@pytest.mark.asyncio
async def test_a_lease_in_memory_ends_by_the_clock_and_can_be_renewed_until_another_has_it():
    now = 0.0
    store = MemoryStore(clock=lambda: now)
    lease = await store.lease("s", owner={"app": "one"}, ttl_s=10)
    now = 9.0
    await lease.renew()
    now = 18.0
    assert not lease.is_lost
    now = 19.0
    assert lease.is_lost
    other = await store.lease("s", owner={"app": "two"}, ttl_s=10)
    with pytest.raises(SessionLockedError, match="two"):
        await lease.renew()
    await lease.release()
    assert not other.is_lost
    assert other.epoch > lease.epoch
