"""Promises of fences and leases: one owner at a time, and one that lost its session can no longer write."""

import asyncio

import pytest

from ctxkit.errors import SessionLockedError, StaleOwnerError
from ctxkit.offload import Store
from ctxkit.offload.capabilities import Deletes, Fences, Leases
from ctxkit.testing.suites._base import Bench, not_offered, promise, refused
from ctxkit.testing.suites._cancel import at_each_await
from ctxkit.testing.suites._reading import blobs, check_numbers, ids
from ctxkit.testing.suites._samples import SESSION, record
from ctxkit.testing.suites._store import StorePart

_LONG_S = 60.0
_SHORT_S = 0.2
_WAIT_S = 20.0


class FencePromises(StorePart):
    """What `fence` promises."""

    @promise
    async def test_an_owner_writes_until_a_higher_epoch_is_fenced(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        first = await store.fence(SESSION, 1)
        await first.append(SESSION, [record("a")])
        await first.put(SESSION, "a.txt", b"a")
        second = await store.fence(SESSION, 7)
        with refused(StaleOwnerError, "append of an owner that lost the session"):
            await first.append(SESSION, [record("stale")])
        with refused(StaleOwnerError, "put of an owner that lost the session"):
            await first.put(SESSION, "stale.txt", b"stale")
        await second.append(SESSION, [record("b")])
        await second.put(SESSION, "b.txt", b"b")
        await store.append(SESSION, [record("c")])  # the store itself has no owner
        assert await ids(store, SESSION) == ["a", "b", "c"]
        assert [entry.name for entry in await blobs(store, SESSION)] == ["a.txt", "b.txt"]
        await check_numbers(store, SESSION)

    @promise
    async def test_a_fence_is_never_lowered(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        await store.fence(SESSION, 7)
        again = await store.fence(SESSION, 7)
        with refused(StaleOwnerError, "a fence below the highest one"):
            await store.fence(SESSION, 6)
        await again.append(SESSION, [record("a")])
        assert await ids(store, SESSION) == ["a"]

    @promise
    async def test_a_fence_outlives_the_session(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        if not isinstance(store, Deletes):
            not_offered(store, Deletes)
        first = await store.fence(SESSION, 1)
        await first.append(SESSION, [record("a")])
        second = await store.fence(SESSION, 2)
        await store.delete(SESSION)
        with refused(StaleOwnerError, "append of an owner that lost the session, after it was deleted"):
            await first.append(SESSION, [record("stale")])
        assert await ids(store, SESSION) == [], "a former owner has brought back a session that was deleted"
        await second.append(SESSION, [record("b")])
        assert await ids(store, SESSION) == ["b"]

    @promise
    async def test_a_fence_holds_for_its_session_only(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        first = await store.fence(SESSION, 1)
        await store.append(SESSION, [record("a")])
        await store.fence(SESSION, 2)
        await first.append("other", [record("b")])
        shared = await first.put(None, "shared.bin", b"shared")
        assert await ids(first, SESSION) == ["a"], "an owner that lost a session may still read it"
        assert (await ids(store, "other"), await store.get(shared)) == (["b"], b"shared")
        assert await asyncio.to_thread(first.reference, SESSION) == await asyncio.to_thread(store.reference, SESSION)

    @promise
    async def test_a_fence_holds_for_every_client_and_outlives_them(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        other = await bench.open()
        assert isinstance(other, Fences)
        stale = await store.fence(SESSION, 1)
        await stale.append(SESSION, [record("a")])
        await other.fence(SESSION, 2)
        with refused(StaleOwnerError, "append after another client fenced the session"):
            await stale.append(SESSION, [record("stale")])
        with refused(StaleOwnerError, "put after another client fenced the session"):
            await stale.put(SESSION, "stale.txt", b"stale")
        await bench.close()
        again = await bench.open()
        assert isinstance(again, Fences)
        with refused(StaleOwnerError, "an epoch below the one that was fenced before the place was opened"):
            await again.fence(SESSION, 1)
        assert await ids(again, SESSION) == ["a"]

    @promise
    async def test_a_fence_in_the_midst_of_writes_lets_none_in_behind_it(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Fences):
            not_offered(store, Fences)
        owner = await store.fence(SESSION, 1)
        writes = [asyncio.create_task(owner.append(SESSION, [record(f"m{number}")])) for number in range(64)]
        await asyncio.sleep(0)
        await store.fence(SESSION, 2)
        seen = len(await ids(store, SESSION))
        answers = await asyncio.gather(*writes, return_exceptions=True)
        told = [f"m{number}" for number, answer in enumerate(answers) if isinstance(answer, str)]
        assert {type(answer) for answer in answers} <= {str, StaleOwnerError}
        found = await ids(store, SESSION)
        assert len(found) == seen, "a write of the owner that lost the session came in behind the fence"
        assert sorted(found) == sorted(told), "what was told and what is stored differ"


class LeasePromises(StorePart):
    """What `lease` promises."""

    @promise
    async def test_a_session_has_one_owner_and_the_error_names_it(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        held = await store.lease(SESSION, owner={"agent": "alice", "pid": 4711}, ttl_s=_LONG_S)
        assert held.epoch >= 1
        assert not held.is_lost
        with pytest.raises(SessionLockedError, match="alice") as caught:
            await store.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S)
        assert caught.value.holder is not None, "the error has the owner's record as `holder`"
        await held.renew()
        other = await store.lease("other", owner={"agent": "bob"}, ttl_s=_LONG_S)
        assert not other.is_lost, "a lease is of one session"
        await held.release()
        await held.release()
        await other.release()

    @promise
    async def test_each_owner_has_a_higher_epoch(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        epochs = []
        for number in range(5):
            held = await store.lease(SESSION, owner={"number": number}, ttl_s=_LONG_S)
            epochs.append(held.epoch)
            await held.release()
        assert epochs == sorted(set(epochs)), "each owner has a higher epoch than all before it"

    @promise
    async def test_who_waits_gets_the_session_when_it_is_released(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        held = await store.lease(SESSION, owner={"agent": "alice"}, ttl_s=_LONG_S)
        waiting = asyncio.create_task(store.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S, timeout_s=_WAIT_S))
        await asyncio.sleep(0)
        await held.release()
        taken = await waiting
        assert taken.epoch > held.epoch
        await held.release()  # of one that is no longer held: it does nothing
        with refused(SessionLockedError, "a session that is held"):
            await store.lease(SESSION, owner={"agent": "eve"}, ttl_s=_LONG_S)
        await taken.release()

    @promise
    async def test_many_that_ask_at_once_get_it_one_after_another(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        inside = 0
        epochs: list[int] = []

        async def own(number: int) -> None:
            nonlocal inside
            held = await store.lease(SESSION, owner={"number": number}, ttl_s=_LONG_S, timeout_s=_WAIT_S)
            inside += 1
            assert inside == 1, "two own the session at once"
            epochs.append(held.epoch)
            for _ in range(5):
                await asyncio.sleep(0)
            inside -= 1
            await held.release()

        await asyncio.gather(*(own(number) for number in range(8)))
        assert epochs == sorted(set(epochs))

    @promise
    async def test_a_lease_holds_for_every_client(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        other = await bench.open()
        assert isinstance(other, Leases)
        held = await store.lease(SESSION, owner={"agent": "alice"}, ttl_s=_LONG_S)
        with pytest.raises(SessionLockedError, match="alice"):
            await other.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S)
        await held.release()
        taken = await other.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S)
        assert taken.epoch > held.epoch
        await taken.release()

    @promise
    async def test_an_expired_owner_knows_that_it_lost_the_session(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        held = await store.lease(SESSION, owner={"agent": "alice"}, ttl_s=_SHORT_S)
        try:
            taken = await store.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S, timeout_s=5 * _SHORT_S)
        except SessionLockedError:
            # It learns of a death in another way, and may hold on for longer.
            assert not held.is_lost, "the session is held by nobody, and yet nobody gets it"
        else:
            assert taken.epoch > held.epoch
            assert held.is_lost, "two believe that they own the session"
            with refused(SessionLockedError, "renewing a lease that somebody else has"):
                await held.renew()
            await taken.release()
        await held.release()

    @promise
    async def test_asking_in_vain_or_being_cancelled_holds_nothing(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Leases):
            not_offered(store, Leases)
        held = await store.lease(SESSION, owner={"agent": "alice"}, ttl_s=_LONG_S)
        waiting = asyncio.create_task(store.lease(SESSION, owner={"agent": "bob"}, ttl_s=_LONG_S, timeout_s=_WAIT_S))
        for _ in range(5):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled(), "who waits can be cancelled"
        await held.release()

        async def own(number: int) -> None:
            # Who was cancelled before may hold on for its time to live, no longer.
            lease = await store.lease(SESSION, owner={"number": number}, ttl_s=_SHORT_S, timeout_s=_WAIT_S)
            await lease.release()

        await at_each_await(own, when="early")
        last = await store.lease(SESSION, owner={"agent": "eve"}, ttl_s=_LONG_S, timeout_s=_WAIT_S)
        await last.release()
