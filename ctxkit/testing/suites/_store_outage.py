"""Promises that hold while a back end fails: typed errors, nothing taken for stored that is not, and a way back."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from ctxkit.errors import StoreReadError, StoreWriteError
from ctxkit.offload import Store
from ctxkit.testing.suites._base import Bench, may_fail, promise
from ctxkit.testing.suites._reading import blobs, check_numbers, ids
from ctxkit.testing.suites._samples import record
from ctxkit.testing.suites._store import StorePart

_CALLS: Final = (("m0", "n0"), ("m1", "n1"), ("m2", "n2"))
"""Ids of the records of each call that is made while the back end fails."""


class OutagePromises(StorePart):
    """What a store promises while what it stands on fails."""

    def outages(self, place: Path) -> Iterable[tuple[str, AbstractContextManager[object]]]:
        """Return what may go wrong with the back end, to have the promises checked while it does.

        Each item is what it is, for messages, and a context in which it happens: a server that is stopped, a disk
        that is full, a system call that fails. A store may succeed all the same.
        """
        return ()

    @promise
    async def test_a_back_end_that_fails_costs_no_record_and_comes_back(self, bench: Bench[Store]) -> None:
        outages = [*self.outages(bench.place)]
        if not outages:
            pytest.skip("outages() gives none: define it to say how the back end can be made to fail")
        for number, (what, outage) in enumerate(outages):
            session = f"session-{number}"
            store = await bench.open()
            await store.append(session, [record("before")])
            kept = await store.put(session, "before.txt", b"before")
            with outage:
                told = await _try_all(store, session, what)
            if self.durable:
                # One that went on with what it holds in memory is found out here.
                await bench.close()
                store = await bench.open()
            await _check(store, session, kept=kept, told=told, what=what)
            await bench.close()


async def _try_all(store: Store, session: str, what: str) -> Sequence[str]:
    """Call everything while the back end fails; return what was acknowledged: ids of records, references of blobs."""
    told: list[str] = []
    for call in _CALLS:
        with may_fail(StoreWriteError, f"{what}: append"):
            await store.append(session, [record(one) for one in call])
            told += call
    with may_fail(StoreReadError, f"{what}: list and get"):
        found = await ids(store, session)
        assert found[:1] == ["before"], f"{what}: list went on without what it could not read"
        assert set(told) <= set(found), f"{what}: what was acknowledged is not listed"
    with may_fail(StoreWriteError, f"{what}: put"):
        told.append(await store.put(session, "during.txt", b"during"))
    return told


async def _check(store: Store, session: str, *, kept: str, told: Sequence[str], what: str) -> None:
    found = await ids(store, session)
    assert found[:1] == ["before"], f"{what}: what was stored before is gone"
    assert await store.get(kept) == b"before", f"{what}: a blob that was stored before has changed"
    records = [one for call in _CALLS for one in call]
    assert set(told) & set(records) <= set(found), f"{what}: acknowledged, but not there"
    for reference in set(told) - set(records):
        assert await store.get(reference) == b"during", f"{what}: an acknowledged blob is not whole"
    for call in _CALLS:
        await store.append(session, [record(one) for one in call])
    again = await ids(store, session)
    assert sorted(again) == sorted(["before", *records]), f"{what}: a call that was repeated is there twice or in part"
    await store.put(session, "during.txt", b"during")
    contents = [await store.get(entry.reference) for entry in await blobs(store, session)]
    assert sorted(contents) == [b"before", b"during"], (
        f"{what}: a part of a blob was left behind, or one is there twice"
    )
    await check_numbers(store, session)
