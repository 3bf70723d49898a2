"""Promises of containment: any text is a session id, and no two sessions share anything."""

import asyncio

from ctxkit.offload import Store
from ctxkit.offload.capabilities import Deletes
from ctxkit.testing.suites._base import Bench, not_offered, promise
from ctxkit.testing.suites._reading import blobs, ids
from ctxkit.testing.suites._samples import HOSTILE_IDS, record
from ctxkit.testing.suites._store import StorePart


class ApartPromises(StorePart):
    """What a store promises about sessions, whatever they are called."""

    @promise
    async def test_sessions_share_nothing(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        put = {}
        for session in ("one", "two"):
            await store.append(session, [record("same"), record(session)])
            put[session] = await store.put(session, "same.txt", session.encode())
        assert put["one"] != put["two"]
        for session, reference in put.items():
            assert await ids(store, session) == ["same", session], "a key counts within its session"
            assert [entry.reference for entry in await blobs(store, session)] == [reference]
            assert await store.get(reference) == session.encode()

    @promise
    async def test_any_text_is_a_session_of_its_own(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        put = {}
        for number, session in enumerate(HOSTILE_IDS):
            await store.append(session, [record("same"), record(f"m{number}")])
            put[session] = await store.put(session, "same.txt", b"%d" % number)
        assert len(set(put.values())) == len(HOSTILE_IDS)
        for number, session in enumerate(HOSTILE_IDS):
            assert await ids(store, session) == ["same", f"m{number}"], f"session {session[:40]!r}"
            assert [entry.reference for entry in await blobs(store, session)] == [put[session]], f"{session[:40]!r}"
            assert await store.get(put[session]) == b"%d" % number, f"session {session[:40]!r}"
        escaped = await asyncio.to_thread(bench.escaped)
        assert escaped == [], "an id reached outside of the place"

    @promise
    async def test_reading_makes_no_session(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for session in HOSTILE_IDS:
            assert [entry async for entry in store.list(session)] == []
            await asyncio.to_thread(store.reference, session)
            await asyncio.to_thread(store.reference, session, "x.txt", b"x")
        assert await asyncio.to_thread(bench.escaped) == []

    @promise
    async def test_deleting_any_session_leaves_the_others(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Deletes):
            not_offered(store, Deletes)
        for session in HOSTILE_IDS:
            await store.append(session, [record("m")])
        beside = bench.place.parent / "beside.txt"
        await asyncio.to_thread(beside.write_text, "stays")
        for session in HOSTILE_IDS:
            assert await ids(store, session) == ["m"], f"{session[:40]!r} was deleted together with another session"
            await store.delete(session)
            assert await ids(store, session) == [], f"{session[:40]!r} was not deleted"
        assert await asyncio.to_thread(beside.read_text) == "stays"
