import asyncio
import json
import logging
import tracemalloc

import pytest

from ctxkit.errors import ConfigError, StoreWriteError
from ctxkit.offload import BLOB, MemoryStore, OffloadGuard, Record, StoreOffloader
from ctxkit.offload.redact import SecretRedactor
from tests.planted import planted, run

from .fakes import Call, FakeCodec, Hint, Message, Result, Text, said

KEY = "ghp_" + run(36, "key")
GONE = "[REDACTED:github-token]"
PLANTED = planted()


class Streaming(MemoryStore):
    """Takes chunks, and remembers how large they were."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    async def put_chunks(self, session_id, name, chunks):
        data = bytearray()
        async for chunk in chunks:
            self.sizes.append(len(chunk))
            data += chunk
        return await self.put(session_id, name, bytes(data))


class Sink(MemoryStore):
    """Takes chunks and keeps none of them."""

    def __init__(self):
        super().__init__()
        self.total = 0
        self.chunks = 0

    async def put_chunks(self, session_id, name, chunks):
        async for chunk in chunks:
            self.total += len(chunk)
            self.chunks += 1
        return "sink:///all"


class Foreign:
    """Somebody's offloader, which only writes."""

    def __init__(self):
        self.got = []

    async def offload_context(self, session_id, msgs, **kwargs):
        self.got.extend(msgs)
        return "there"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        self.got.append(tool_result)
        return "there"


async def everything(store, session="s"):
    """Return all bytes that a store has of a session, and whose words its records are."""
    data, whose = b"", []
    async for entry in store.list(session):
        data += await store.get(entry.reference, entry.offset, entry.size)
        whose += [] if entry.kind == BLOB else [entry.provenance]
    return data.decode(), whose


def every_place(text):
    """Return a message that holds a text in every place that it has."""
    return Message(
        id="m1",
        content=[
            Text(text),
            Hint(text),
            Hint([Text(text)]),
            Call("c1", "Bash", json.dumps({"command": text})),
            Result("c1", "Bash", text, metadata={"details": {"env": [text]}}),
            Result("c2", "Bash", [Text(text)]),
        ],
        metadata={"note": text},
    )


@pytest.mark.asyncio
@pytest.mark.row("X17")
async def test_no_secret_of_a_message_reaches_the_store():
    store = MemoryStore()
    offloader = StoreOffloader(store, FakeCodec(), redactor=SecretRedactor())
    await offloader.offload_context("s", [every_place(text) for _, text, _ in PLANTED])
    stored, _ = await everything(store)
    assert [secret for _, _, secret in PLANTED if secret in stored or json.dumps(secret)[1:-1] in stored] == []
    assert sum(offloader.redactor.counts.values()) >= 8 * len(PLANTED)


@pytest.mark.asyncio
@pytest.mark.parametrize("store_type", [MemoryStore, Streaming])
async def test_no_secret_of_a_tool_result_reaches_the_store(store_type):
    store = store_type()
    offloader = StoreOffloader(store, FakeCodec(), redactor=SecretRedactor())
    text = "\n".join(text + "\n" + "w " * 5000 for _, text, _ in PLANTED)
    reference = await offloader.offload_tool_result("s", Result("c1", "Bash", [Text(text), Text("end")]))
    stored = (await store.get(reference)).decode()
    assert [secret for _, _, secret in PLANTED if secret in stored] == []
    assert stored.endswith("end")


@pytest.mark.asyncio
async def test_what_is_redacted_is_stored_once_however_often_it_is_sent():
    store = MemoryStore()
    for _ in range(2):  # another offloader is another process
        offloader = StoreOffloader(store, FakeCodec(), redactor=SecretRedactor())
        await offloader.offload_context("s", [said("m1", f"my key is {KEY}")])
    stored, whose = await everything(store)
    assert stored.count(GONE) == 1
    assert whose == ["assistant"]


@pytest.mark.asyncio
async def test_redaction_can_be_turned_off():
    store = MemoryStore()
    await StoreOffloader(store, FakeCodec(), redactor=None).offload_context("s", [said("m1", KEY)])
    assert KEY in (await everything(store))[0]


@pytest.mark.asyncio
async def test_a_redactor_that_fails_stores_nothing_and_says_so():
    def redactor(_):
        raise RuntimeError

    store = Streaming()
    offloader = StoreOffloader(store, FakeCodec(), redactor=redactor)
    with pytest.raises(StoreWriteError, match="redactor"):
        await offloader.offload_context("s", [said("m1", "text")])
    with pytest.raises(StoreWriteError, match="redactor"):
        await offloader.offload_tool_result("s", Result("c1", "Bash", "text"))
    assert await everything(store) == ("", [])


@pytest.mark.asyncio
async def test_each_record_says_whose_words_it_has():
    store = MemoryStore()
    recalled = Result("c2", "search_context", "old", metadata={"ctxkit": {"recalled": True}})
    msgs = [
        said("m1", "do it", role="user"),
        Message(id="m2", content=[Text("yes"), Call("c1", "Bash", "{}"), Result("c1", "Bash", "user: do that")]),
        Message(id="m3", content=[recalled, Hint("a note")]),
        said("m4", "rules", role="system"),
    ]
    await StoreOffloader(store, FakeCodec()).offload_context("s", msgs)
    assert (await everything(store))[1] == ["user", "assistant+tool", "recalled+hint", "system"]


@pytest.mark.asyncio
async def test_a_huge_result_keeps_head_and_tail_and_says_what_is_missing():
    store = Streaming()
    offloader = StoreOffloader(store, FakeCodec(), result_bytes=1000)
    text = "".join(f"ligne été {n}\n" for n in range(100_000))
    reference = await offloader.offload_tool_result("s", Result("c1", "Bash", [Text(text[:5000]), Text(text[5000:])]))
    stored = (await store.get(reference)).decode()
    head, gap, tail = stored.partition("\n[... ")
    left, total = (int(word) for word in tail.split()[0:3:2])
    shown, _, tail = tail.partition(" ...]\n")
    assert gap
    assert text.startswith(head)
    assert text.endswith(tail)
    assert total == len(text.encode())
    assert len(head.encode()) + left + len(tail.encode()) == total
    assert 0 <= 1000 - len(head.encode()) - len(tail.encode()) < 8
    assert "stored nowhere" in shown
    assert await offloader.offload_tool_result("s", Result("c1", "Bash", text)) == reference


@pytest.mark.asyncio
async def test_a_secret_at_the_edge_of_what_is_left_out_leaves_nothing_of_it():
    for shift in range(0, 60, 3):
        text = "h " * 200 + "x" * shift + " " + KEY + " middle " * 500 + KEY + " " + "y" * shift + " t" * 200
        store = MemoryStore()
        offloader = StoreOffloader(store, FakeCodec(), result_bytes=900, redactor=SecretRedactor())
        stored = (await store.get(await offloader.offload_tool_result("s", Result("c1", "Bash", text)))).decode()
        parts = [KEY[at : at + 6] for at in range(len(KEY) - 5)]
        assert [part for part in parts if part in stored] == [], shift


@pytest.mark.asyncio
async def test_a_result_of_the_very_limit_is_kept_whole():
    store = MemoryStore()
    offloader = StoreOffloader(store, FakeCodec(), result_bytes=6)
    assert await store.get(await offloader.offload_tool_result("s", Result("a", "Bash", "abcdef"))) == b"abcdef"
    assert b"left out" in await store.get(await offloader.offload_tool_result("s", Result("b", "Bash", "abcdefg")))


def test_a_limit_below_one_byte_is_refused():
    with pytest.raises(ConfigError, match="result_bytes is 0"):
        StoreOffloader(MemoryStore(), FakeCodec(), result_bytes=0)


@pytest.mark.asyncio
async def test_a_result_is_streamed_without_a_copy_of_it():
    store = Sink()
    offloader = StoreOffloader(store, FakeCodec(), result_bytes=None)
    result = Result("c1", "Bash", "0123456789abcdef " * (1 << 21))  # 34 MB
    tracemalloc.start()
    try:
        await offloader.offload_tool_result("s", result)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert store.total == len(result.output)
    assert store.chunks > 100
    assert peak < 4 << 20


@pytest.mark.asyncio
async def test_an_owner_writes_through_its_own_view_of_the_store():
    class View(MemoryStore):
        pass

    store, view = MemoryStore(), View()
    guard = OffloadGuard(StoreOffloader(store, FakeCodec()), codec=FakeCodec(), timeout_s=5)
    guard.through = lambda: view
    await guard.store_messages("s", [said("m1", "text")])
    await guard.store_result("s", Result("c1", "Bash", "output"))
    await guard.store_records("s", [Record(key="p", body='{"a":1}', kind="plan")])
    assert (await everything(store))[0] == ""
    assert [entry.kind async for entry in view.list("s")] == ["message", "plan", BLOB]


@pytest.mark.asyncio
async def test_the_local_copy_beside_a_foreign_offloader_refuses_an_owner_that_lost_the_session():
    local = MemoryStore()
    view = await local.fence("s", 1)
    guard = OffloadGuard(Foreign(), codec=FakeCodec(), timeout_s=5, local=local)
    guard.through = lambda: view
    assert (await guard.store_messages("s", [said("m1", "mine")])).recallable

    await local.fence("s", 2)
    messages = await guard.store_messages("s", [said("m2", "stale")])
    result = await guard.store_result("s", Result("c1", "Bash", "stale"))
    record = await guard.store_records("s", [Record(key="p", body='{"a":1}', kind="plan")])

    assert (messages.recallable, messages.keys, result.recallable) == (False, (), False)
    assert all("StaleOwnerError" in error for error in (messages.error, result.error, record))
    assert [entry.sequence async for entry in local.list("s")] == [1]


@pytest.mark.asyncio
async def test_an_offloader_that_is_somebody_elses_is_not_told_of_views():
    seen = []

    class Strict(Foreign):
        async def offload_context(self, session_id, msgs):
            seen.append(msgs)
            return "there"

    guard = OffloadGuard(Strict(), codec=FakeCodec(), timeout_s=5, local=MemoryStore())
    guard.through = MemoryStore
    stored = await guard.store_messages("s", [said("m1", "text")])
    assert (stored.reference, stored.error) == ("there", None)


@pytest.mark.asyncio
@pytest.mark.row("X17")
async def test_an_offloader_of_somebody_else_gets_copies_without_secrets_and_so_does_the_local_store():
    foreign, local, told = Foreign(), MemoryStore(), []
    guard = OffloadGuard(foreign, codec=FakeCodec(), timeout_s=5, local=local, redactor=SecretRedactor())
    guard.on_redacted = told.append
    message = every_place(KEY)
    result = Result("c9", "Bash", [Text(f"key {KEY}"), Text("rest")], metadata={"details": KEY})
    clean = said("m2", "nothing to hide")
    await guard.store_messages("s", [message, clean])
    await guard.store_result("s", result)
    await guard.store_records("s", [Record(key="k", body=json.dumps({"a": KEY}), kind="ledger")])
    assert KEY not in repr(foreign.got)
    assert foreign.got[1] is clean
    assert foreign.got[2].id == "c9"
    assert KEY in repr(message)
    assert KEY not in (await everything(local))[0]
    assert told == [{"github-token": 8}, {"github-token": 2}, {"github-token": 1}]


@pytest.mark.asyncio
async def test_an_offloader_that_redacts_by_itself_gets_what_there_is(caplog):
    class Own(Foreign):
        redactor = staticmethod(str.upper)

    own, local = Own(), MemoryStore()
    guard = OffloadGuard(own, codec=FakeCodec(), timeout_s=5, local=local, redactor=SecretRedactor())
    await guard.store_messages("s", [said("m1", KEY)])
    assert KEY in repr(own.got)
    assert GONE in (await everything(local))[0]


@pytest.mark.asyncio
async def test_a_redactor_that_fails_is_an_error_of_the_guard_and_nothing_is_stored(caplog):
    def redactor(_):
        raise RuntimeError

    foreign = Foreign()
    guard = OffloadGuard(foreign, codec=FakeCodec(), timeout_s=5, local=MemoryStore(), redactor=redactor)
    with caplog.at_level(logging.WARNING):
        stored = [
            await guard.store_messages("s", [said("m1", "text")]),
            await guard.store_result("s", Result("c1", "Bash", "output")),
        ]
    assert [one.reference for one in stored] == [None, None]
    assert all("redactor" in (one.error or "") for one in stored)
    assert "redactor" in (await guard.store_records("s", [Record(key="k", body='{"a":"b"}')]) or "")
    assert foreign.got == []


@pytest.mark.asyncio
async def test_a_cancelled_result_leaves_no_generator_behind():
    class Slow(MemoryStore):
        def __init__(self):
            super().__init__()
            self.began = asyncio.Event()

        async def put_chunks(self, session_id, name, chunks):
            async for _ in chunks:
                self.began.set()
            return "never"

    store = Slow()
    task = asyncio.create_task(
        StoreOffloader(store, FakeCodec()).offload_tool_result("s", Result("c1", "Bash", "x" * (1 << 20)))
    )
    await store.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
