"""Promises of what a store may offer beside its four methods: deleting, chunks, search."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from ctxkit.errors import StoreWriteError
from ctxkit.offload import Store
from ctxkit.offload.capabilities import Deletes, Searches, Streams
from ctxkit.testing.suites._base import Bench, not_offered, promise, refused
from ctxkit.testing.suites._cancel import at_each_await
from ctxkit.testing.suites._reading import blobs, check_numbers, ids
from ctxkit.testing.suites._samples import LONGEST_NAME, REFUSED_NAMES, SESSION, record
from ctxkit.testing.suites._store import StorePart


class _SourceError(Exception):
    """What goes wrong where the chunks come from."""


async def _chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


async def _broken(*parts: bytes) -> AsyncIterator[bytes]:
    async for part in _chunks(*parts):
        yield part
    raise _SourceError


class DeletePromises(StorePart):
    """What `delete` promises."""

    @promise
    async def test_a_deleted_session_is_empty_and_begins_anew(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Deletes):
            not_offered(store, Deletes)
        for session in (SESSION, "other"):
            await store.append(session, [record("a"), record("b")])
            await store.put(session, "x.txt", b"x")
        shared = await store.put(None, "shared.bin", b"shared")
        await store.delete(SESSION)
        assert [entry async for entry in store.list(SESSION)] == [], "a deleted session is empty"
        assert await ids(store, "other") == ["a", "b"], "another session was deleted too"
        assert await store.get(shared) == b"shared", "what sessions share stays"
        await store.append(SESSION, [record("b")])
        assert await ids(store, SESSION) == ["b"], "a key of the deleted session still counts"
        await check_numbers(store, SESSION)

    @promise
    async def test_deleting_what_is_not_there_is_no_error(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Deletes):
            not_offered(store, Deletes)
        await store.delete("nobody")
        await store.append(SESSION, [record("a")])
        await store.delete(SESSION)
        await store.delete(SESSION)
        assert await ids(store, SESSION) == []

    @promise
    async def test_a_deletion_is_seen_by_another_client(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Deletes):
            not_offered(store, Deletes)
        other = await bench.open()
        await store.append(SESSION, [record("a"), record("b")])
        assert await ids(other, SESSION) == ["a", "b"]
        await store.delete(SESSION)
        assert await ids(other, SESSION) == []
        await other.append(SESSION, [record("b"), record("c")])
        assert await ids(store, SESSION) == await ids(other, SESSION) == ["b", "c"]
        await store.delete(SESSION)
        await store.append(SESSION, [record("d", "longer than what stood there before"), record("e")])
        assert await ids(other, SESSION) == ["d", "e"], "a client reads what it remembers of a session that was deleted"
        await check_numbers(store, SESSION)


class StreamPromises(StorePart):
    """What `put_chunks` promises."""

    @promise
    async def test_chunks_are_stored_as_one_blob(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Streams):
            not_offered(store, Streams)
        cases: Sequence[Sequence[bytes]] = ([], [b""], [b"a", b"", b"bc"], [b"x" * 70_000] * 5)
        for number, parts in enumerate(cases):
            reference = await store.put_chunks(SESSION, f"{number}.bin", _chunks(*parts))
            assert await store.get(reference) == b"".join(parts)

    @promise
    async def test_chunks_and_put_have_the_same_rules(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Streams):
            not_offered(store, Streams)
        for owner in (SESSION, None):
            for name in ("x.txt", LONGEST_NAME):
                first = await store.put(owner, name, b"one")
                assert await store.put_chunks(owner, name, _chunks(b"o", b"ne")) == first
                second = await store.put_chunks(owner, name, _chunks(b"t", b"wo"))
                assert second != first, "other content gets another reference"
                assert await store.put(owner, name, b"two") == second
                assert (await store.get(first), await store.get(second)) == (b"one", b"two")
        for name in REFUSED_NAMES:
            with refused(StoreWriteError, f"the name {name[:40]!r}"):
                await store.put_chunks(SESSION, name, _chunks(b"x"))
        assert len(await blobs(store, SESSION)) == 4

    @promise
    async def test_chunks_that_break_off_leave_nothing(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Streams):
            not_offered(store, Streams)
        try:
            await store.put_chunks(SESSION, "x.txt", _broken(b"a" * 70_000, b"b"))
        except (_SourceError, StoreWriteError):
            pass
        else:
            raise AssertionError("chunks that broke off were taken for the whole")
        assert await blobs(store, SESSION) == [], "a part of a blob was left behind"

        async def put(number: int) -> None:
            await store.put_chunks(SESSION, f"{number}.txt", _chunks(b"a" * 70_000, b"b"))

        await at_each_await(put, when="early")
        for entry in await blobs(store, SESSION):
            assert await store.get(entry.reference) == b"a" * 70_000 + b"b", "a cancelled call has left a part behind"


class SearchPromises(StorePart):
    """What `search` promises."""

    @promise
    async def test_search_finds_records_newest_first_then_blobs(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Searches):
            not_offered(store, Searches)
        texts = ["a needle", "hay", "Needle again", "needle \u00e9"]
        await store.append(SESSION, [record(f"m{number}", text) for number, text in enumerate(texts)])
        await store.append("other", [record("elsewhere", "needle")])
        blob = await store.put(SESSION, "x.txt", b"a NEEDLE in a blob")
        await store.put(SESSION, "hay.txt", b"hay")
        found = [entry async for entry in store.search(SESSION, "needle")]
        assert [entry.sequence for entry in found] == [4, 3, 1, None], "the newest record first, blobs last"
        assert found[-1].reference == blob
        assert [entry async for entry in store.list(SESSION) if entry in found], "entries are as in the list"
        assert [entry.sequence async for entry in store.search(SESSION, "\u00e9")] == [4]

    @promise
    async def test_search_takes_a_text_literally(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        if not isinstance(store, Searches):
            not_offered(store, Searches)
        await store.append(SESSION, [record("m1", "100% of a_b [x] .* 'q'"), record("m2", "100 axb x")])
        for text in ("100%", "a_b", "[x]", ".*", "'q'"):
            found = [entry.sequence async for entry in store.search(SESSION, text)]
            assert found == [1], f"search(…, {text!r}) is for this very text, not for a pattern"
        assert [entry async for entry in store.search(SESSION, "nowhere")] == []
        assert [entry async for entry in store.search("nobody", "x")] == []
