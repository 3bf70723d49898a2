"""Promises of `Store.append` and `Store.list`: whole, in order, once, all or none."""

import json

from ctxkit.errors import StoreWriteError
from ctxkit.offload import Record, Store
from ctxkit.testing.suites._base import Bench, promise, refused
from ctxkit.testing.suites._reading import bodies, check_numbers, expected, ids, listed
from ctxkit.testing.suites._samples import SESSION, SIZES, TEXTS, record
from ctxkit.testing.suites._store import StorePart

_NO_RECORDS = (
    ("a body that is no JSON object", Record(key="bad", body="no json")),
    ("a body with a line break", Record(key="bad", body='{"id":\n"bad"}')),
    ("an empty object", Record(key="bad", body="{}")),
    ("an empty body", Record(key="bad", body="")),
    ("an empty key", Record(key="", body='{"id": "bad"}')),
    ("a key of more than 300 characters", Record(key="k" * 301, body='{"id": "bad"}')),
    ("a kind that is no lower-case word", Record(key="bad", body='{"id": "bad"}', kind="No Word")),
)


class RecordPromises(StorePart):
    """What `append` and `list` promise to one writer."""

    @promise
    async def test_it_has_the_four_methods_and_reference(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        assert isinstance(store, Store), "a Store has append, put, get, list and reference"

    @promise
    async def test_records_come_back_whole_and_in_order(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record(f"m{number}", "é" * number) for number in range(30)]
        await store.append(SESSION, sent[:1])
        await store.append(SESSION, sent[1:20])
        await store.append(SESSION, sent[20:])
        found = await bodies(store, SESSION)
        assert found == expected(sent), "records come back in the order in which append took them"

    @promise
    async def test_sequences_count_from_one_without_gaps(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for number in range(5):
            await store.append(SESSION, [record(f"{number}-{at}") for at in range(number)])
            await store.append(SESSION, [record(f"{number}-{at}") for at in range(number)])
            await check_numbers(store, SESSION)
        assert len(await listed(store, SESSION)) == 10

    @promise
    async def test_an_entry_has_key_kind_and_place(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record("a"), record("b", kind="plan"), record("c", kind="a_word_2")]
        reference = await store.append(SESSION, sent)
        found = await listed(store, SESSION)
        assert [(entry.key, entry.kind) for entry in found] == [(one.key, one.kind) for one in sent]
        assert {entry.name for entry in found} == {None}, "a record has no name: names are the blobs'"
        assert reference, "append returns the reference of the session's log"

    @promise
    async def test_the_list_begins_after_a_sequence(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record(f"m{number}") for number in range(6)]
        await store.append(SESSION, sent)
        for after in range(8):
            found = await bodies(store, SESSION, after=after)
            assert found == expected(sent[after:]), f"list(after={after}) gives the records with a higher sequence"
        assert await bodies(store, SESSION, after=-1) == expected(sent), "no sequence is below 1"

    @promise
    async def test_an_unknown_session_is_empty(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        assert [entry async for entry in store.list("nobody")] == []
        await store.append(SESSION, [record("a")])
        assert [entry async for entry in store.list("nobody")] == []

    @promise
    async def test_appending_nothing_stores_nothing(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        reference = await store.append(SESSION, [])
        assert [entry async for entry in store.list(SESSION)] == []
        assert await store.append(SESSION, [record("a")]) == reference

    @promise
    async def test_the_same_key_is_stored_once(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        first = await store.append(SESSION, [record("a"), record("b"), record("a")])
        again = await store.append(SESSION, [record("b"), record("c"), record("c")])
        assert again == first, "the log of a session has one reference"
        assert await ids(store, SESSION) == ["a", "b", "c"], "a repeated call is answered, not stored again"
        await check_numbers(store, SESSION)

    @promise
    async def test_the_same_id_with_other_content_is_another_record(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record("a", "one"), record("a", "two")]
        await store.append(SESSION, sent)
        await store.append(SESSION, sent)
        assert await bodies(store, SESSION) == expected(sent), "what is the same record is said by its key alone"

    @promise
    async def test_any_text_comes_back(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [
            record(f"{number}-{is_ascii}", text, is_ascii=is_ascii)
            for number, text in enumerate(TEXTS)
            for is_ascii in (False, True)
        ]
        await store.append(SESSION, sent)
        found = await bodies(store, SESSION)
        for one, (body, wanted) in enumerate(zip(found, expected(sent), strict=True)):
            assert body == wanted, f"text {TEXTS[one // 2][:60]!r} came back changed"

    @promise
    async def test_any_key_comes_back(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        keys = ["k" * 300, 'quote " and \\', "é", "\U0001f642" * 300, "a\0b", "line\nbreak", "K", "k"]
        await store.append(SESSION, [Record(key=key, body=json.dumps({"id": key})) for key in keys])
        await store.append(SESSION, [Record(key=key, body=json.dumps({"id": key})) for key in keys])
        assert [entry.key for entry in await listed(store, SESSION)] == keys

    @promise
    async def test_records_of_any_size_come_back(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record(f"m{size}", "x" * size) for size in SIZES]
        await store.append(SESSION, sent)
        await store.append(SESSION, [record("after")])
        assert await bodies(store, SESSION) == [*expected(sent), *expected([record("after")])]
        blobs = [entry async for entry in store.list(SESSION) if entry.sequence is None]
        assert blobs == [], "what was appended is listed as records, however large"

    @promise
    async def test_what_is_no_record_is_refused(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for what, bad in _NO_RECORDS:
            with refused(StoreWriteError, what):
                await store.append(SESSION, [bad])
        assert await ids(store, SESSION) == []

    @promise
    async def test_a_call_is_stored_whole_or_not_at_all(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for what, bad in _NO_RECORDS:
            with refused(StoreWriteError, f"{what} among good ones"):
                await store.append(SESSION, [record("before"), bad, record("behind")])
            assert await ids(store, SESSION) == [], f"{what}: a call that failed has left a part behind"
        await store.append(SESSION, [record("before"), record("behind")])
        assert await ids(store, SESSION) == ["before", "behind"], (
            "a call that failed is repeated without what was wrong"
        )
        await check_numbers(store, SESSION)
