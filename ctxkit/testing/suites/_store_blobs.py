"""Promises of `Store.put`, `Store.get` and `Store.reference`: whole, by content, never overwritten."""

import asyncio
from contextlib import suppress
from typing import Final

from ctxkit.errors import RecordNotFoundError, StoreError, StoreWriteError
from ctxkit.offload import Store
from ctxkit.testing.suites._base import Bench, promise, refused
from ctxkit.testing.suites._reading import blobs, ids
from ctxkit.testing.suites._samples import LONGEST_NAME, REFUSED_NAMES, SESSION, SIZES, record
from ctxkit.testing.suites._store import StorePart

_NAME: Final = "tool_result-x.txt"
_TICK_S: Final = 0.05
"""Clocks of file systems and databases tell times apart that are so far from each other."""


class BlobPromises(StorePart):
    """What `put`, `get` and `reference` promise."""

    @promise
    async def test_a_blob_comes_back(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for owner in (SESSION, None):
            for size in (0, *SIZES):
                data = (b"%d;" % size + bytes(range(256)) * (size // 256 + 1))[:size]
                reference = await store.put(owner, f"data-{size}.bin", data)
                assert await store.get(reference) == data, f"a blob of {size} bytes came back changed"

    @promise
    async def test_the_same_content_under_the_same_name_is_stored_once(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for owner in (SESSION, None):
            first = await store.put(owner, _NAME, b"one")
            assert await store.put(owner, _NAME, b"one") == first, "a repeated put returns what the first one did"
        assert len(await blobs(store, SESSION)) == 1

    @promise
    async def test_other_content_under_the_same_name_leaves_the_first_alone(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for name in (_NAME, "no-ending", LONGEST_NAME):
            sent = {await store.put(SESSION, name, data): data for data in (b"one", b"two", b"three")}
            assert len(sent) == 3, f"{name}: other content gets another reference"
            again = [await store.put(SESSION, name, data) for data in (b"one", b"two", b"three")]
            assert again == list(sent), f"{name}: a repeated put returns what the first one did"
            for reference, data in sent.items():
                assert await store.get(reference) == data, f"{name}: content was overwritten or mixed up"
        assert len(await blobs(store, SESSION)) == 9

    @promise
    async def test_a_name_that_another_blob_got_for_its_content_is_not_mistaken(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        await store.put(SESSION, _NAME, b"one")
        second = await store.put(SESSION, _NAME, b"two")
        names = [entry.name for entry in await blobs(store, SESSION) if entry.reference == second]
        assert len(names) == 1, "list gives the reference that put gave"
        assert names[0] is not None, "a blob has a name"
        third = await store.put(SESSION, names[0], b"three")
        assert (await store.get(second), await store.get(third)) == (b"two", b"three")

    @promise
    async def test_get_gives_ranges(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        data = bytes(range(100))
        reference = await store.put(None, "data.bin", data)
        for offset, length in ((0, None), (10, 5), (95, None), (95, 50), (0, 0), (99, 1), (100, None), (1000, 5)):
            wanted = data[offset:] if length is None else data[offset : offset + length]
            assert await store.get(reference, offset, length) == wanted, f"get(…, {offset}, {length})"

    @promise
    async def test_a_negative_range_never_counts_from_the_end(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        reference = await store.put(None, "data.bin", bytes(range(100)))
        for offset, length, wanted in ((-5, 5, bytes(range(5))), (0, -1, b"")):
            with suppress(StoreError):  # refusing it is as good
                assert await store.get(reference, offset, length) == wanted, f"get(…, {offset}, {length})"

    @promise
    async def test_a_log_is_read_by_its_reference(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        reference = await store.append(SESSION, [record("a"), record("b")])
        data = await store.get(reference)
        assert data.index(b'"a"') < data.index(b'"b"'), "the log of a session has its records in order"
        assert await store.get(reference, 2, 7) == data[2:9]
        assert await store.get(reference, len(data) + 1) == b""

    @promise
    async def test_references_are_known_beforehand(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        foreseen = await asyncio.to_thread(store.reference, SESSION)
        assert await store.append(SESSION, [record("a")]) == foreseen, "reference(session) is what append returns"
        for owner in (SESSION, None):
            for data in (b"one", b"two", b"one", b""):
                foreseen = await asyncio.to_thread(store.reference, owner, _NAME, data)
                assert await store.put(owner, _NAME, data) == foreseen, "reference(…) is what put returns"

    @promise
    async def test_blobs_are_listed_behind_the_records_oldest_first(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        put = {}
        for name in ("c.txt", "a.txt", "b.txt"):
            put[name] = await store.put(SESSION, name, name.encode())
            await asyncio.sleep(_TICK_S)
        await store.append(SESSION, [record("m")])
        entries = [entry async for entry in store.list(SESSION)]
        assert [entry.sequence for entry in entries] == [1, None, None, None], "the records, then the blobs"
        assert [(entry.name, entry.reference) for entry in entries[1:]] == list(put.items())
        assert [(entry.kind, entry.size, entry.offset, entry.key) for entry in entries[1:]] == [
            ("blob", 5, 0, None)
        ] * 3

    @promise
    async def test_what_is_shared_belongs_to_no_session(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        reference = await store.put(None, "shared.bin", b"shared")
        assert await blobs(store, SESSION) == []
        assert await store.get(reference) == b"shared"

    @promise
    async def test_names_that_are_none_are_refused(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for owner in (SESSION, None):
            for name in REFUSED_NAMES:
                with refused(StoreWriteError, f"the name {name[:40]!r}"):
                    await store.put(owner, name, b"x")
        assert await blobs(store, SESSION) == []
        assert await asyncio.to_thread(bench.escaped) == []

    @promise
    async def test_every_allowed_name_is_taken(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        names = ["a", "0", "A.txt", "a.txt", "a.TXT", "a~b_c-d.e.f", "contextual.txt", "con.txt", LONGEST_NAME]
        for number, name in enumerate(names):
            data = b"%d" % number
            assert await store.get(await store.put(SESSION, name, data)) == data, f"the name {name[:40]!r}"
        assert len(await blobs(store, SESSION)) == len(names)

    @promise
    async def test_what_is_no_reference_is_not_found(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        log = await store.append(SESSION, [record("a")])
        blob = await store.put(SESSION, _NAME, b"x")
        secret = bench.place.parent / "secret.txt"
        await asyncio.to_thread(secret.write_text, "secret")
        strange = [
            "",
            ".",
            "/etc/passwd",
            "file:///etc/passwd",
            "\0",
            "\ud800",
            "x" * 5000,
            str(secret),
            f"{log}/../../secret.txt",
            f"{blob}/",
            f"{blob}\0",
            f"{blob}x",
            f"{blob}/../../../../secret.txt",
            blob[:-1],
            await asyncio.to_thread(store.reference, "nobody"),
            await asyncio.to_thread(store.reference, SESSION, "nothing.txt", b"x"),
        ]
        for reference in strange:
            with refused(RecordNotFoundError, f"get({reference[:60]!r})"):
                await store.get(reference)
        assert await ids(store, SESSION) == ["a"]
