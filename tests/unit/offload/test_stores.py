"""What every store promises, on each of ctxkit's own."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.errors import RecordNotFoundError, StoreWriteError
from ctxkit.offload import BLOB, FileStore, MemoryStore, Record, Store, lines, read_records, record_key


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path / "root") if request.param == "files" else MemoryStore()


def record(identifier: str, text: str = "x") -> Record:
    body = json.dumps({"id": identifier, "text": text})
    return Record(key=record_key(identifier, body), body=body)


async def bodies(store, session: str, after: int = 0) -> list[str]:
    entries = [entry async for entry in store.list(session, after=after) if entry.kind != BLOB]
    return [lines.unseal(data).body.decode() async for _, data in read_records(store, entries)]


def test_it_is_a_store(store):
    assert isinstance(store, Store)


@pytest.mark.asyncio
async def test_records_come_back_in_order_and_whole(store):
    records = [record(f"m{number}", "é" * number) for number in range(50)]
    reference = await store.append("s", records[:20])
    assert await store.append("s", records[20:]) == reference == store.reference("s")
    assert await bodies(store, "s") == [one.body for one in records]
    assert await bodies(store, "s", after=48) == [one.body for one in records[48:]]
    listed = [entry async for entry in store.list("s")]
    assert [entry.sequence for entry in listed] == list(range(1, 51))
    assert [entry.key for entry in listed] == [one.key for one in records]


@pytest.mark.asyncio
async def test_the_same_key_is_stored_once(store):
    await store.append("s", [record("a"), record("b"), record("a")])
    await store.append("s", [record("b"), record("c")])
    assert await bodies(store, "s") == [record(name).body for name in "abc"]


@pytest.mark.asyncio
async def test_another_content_of_a_message_is_another_record(store):
    await store.append("s", [record("a", "one"), record("a", "two")])
    assert len(await bodies(store, "s")) == 2


@pytest.mark.asyncio
async def test_concurrent_appends_lose_and_repeat_nothing(store):
    async def write(task: int) -> None:
        for number in range(10):
            await store.append("s", [record(f"{task}-{number}"), record(f"shared-{number}")])

    await asyncio.gather(*(write(task) for task in range(20)))
    found = await bodies(store, "s")
    assert len(found) == len(set(found)) == 210


@pytest.mark.asyncio
async def test_sessions_share_nothing_but_media(store):
    await store.append("s", [record("a")])
    await store.put("s", "tool_result-x.txt", b"s")
    other = await store.put("t", "tool_result-x.txt", b"t")
    assert await bodies(store, "t") == []
    assert [entry.reference async for entry in store.list("t")] == [other]
    assert await store.get(other) == b"t"


@pytest.mark.asyncio
async def test_an_unknown_session_is_empty(store):
    assert [entry async for entry in store.list("nobody")] == []


@pytest.mark.asyncio
async def test_the_same_blob_has_one_reference_and_another_content_another_one(store):
    first = await store.put("s", "tool_result-x.txt", b"one")
    assert await store.put("s", "tool_result-x.txt", b"one") == first
    foreseen = await asyncio.to_thread(store.reference, "s", "tool_result-x.txt", b"two")
    second = await store.put("s", "tool_result-x.txt", b"two")
    assert second == foreseen != first
    assert await store.put("s", "tool_result-x.txt", b"two") == second
    assert (await store.get(first), await store.get(second)) == (b"one", b"two")


@pytest.mark.asyncio
async def test_a_name_that_looks_like_a_clash_is_not_mistaken_for_one(store):
    await store.put("s", "tool_result-x.txt", b"one")
    clash = await store.put("s", "tool_result-x.txt", b"two")
    named_so = clash.rpartition("/")[2]
    assert await store.put("s", named_so, b"three") != clash
    assert await store.get(clash) == b"two"


@pytest.mark.asyncio
async def test_ranges_are_bytes(store):
    reference = await store.put(None, "data.bin", bytes(range(100)))
    assert await store.get(reference, 10, 5) == bytes(range(10, 15))
    assert await store.get(reference, 95) == bytes(range(95, 100))
    assert await store.get(reference, 1000, 5) == b""


@pytest.mark.asyncio
async def test_an_empty_blob_is_a_blob(store):
    assert await store.get(await store.put("s", "empty.txt", b"")) == b""


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reference",
    [
        "",
        "/etc/passwd",
        "x",
        "sessions/s/context.jsonl",
        "{root}/sessions/../../x",
        "{root}/sessions/s/.lock",
        "{root}/secret",
        "\x00",
    ],
)
async def test_a_reference_from_elsewhere_is_not_found(store, reference, tmp_path):
    await store.append("s", [record("a")])
    await asyncio.to_thread((tmp_path / "root" / "secret").parent.mkdir, exist_ok=True)
    await asyncio.to_thread((tmp_path / "root" / "secret").write_text, "secret")
    with pytest.raises(RecordNotFoundError):
        await store.get(reference.format(root=tmp_path / "root"))


@pytest.mark.asyncio
async def test_a_deleted_session_is_empty_and_can_begin_anew(store):
    await store.append("s", [record("a"), record("b")])
    await store.put("s", "x.txt", b"x")
    await store.append("t", [record("a")])
    await store.delete("s")
    await store.delete("nobody")
    assert [entry async for entry in store.list("s")] == []
    await store.append("s", [record("b")])
    assert await bodies(store, "s") == [record("b").body]
    assert await bodies(store, "t") == [record("a").body]


@pytest.mark.asyncio
async def test_a_record_that_is_none_stores_nothing_of_its_call(store):
    with pytest.raises(StoreWriteError):
        await store.append("s", [record("a"), Record(key="b", body="no json")])
    assert await bodies(store, "s") == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 12), max_size=5), max_size=8))
def test_a_store_is_a_list_without_repeats(tmp_path_factory, calls):
    async def play(store):
        model: list[str] = []
        for call in calls:
            await store.append("s", [record(f"m{number}") for number in call])
            model += [body for number in call if (body := record(f"m{number}").body) not in model]
            assert await bodies(store, "s") == list(dict.fromkeys(model))

    asyncio.run(play(MemoryStore()))
    asyncio.run(play(FileStore(tmp_path_factory.mktemp("root"))))
