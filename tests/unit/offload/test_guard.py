import asyncio
import logging
from dataclasses import replace

import pytest

from ctxkit.errors import StoreWriteError
from ctxkit.offload import MemoryStore, OffloadGuard, Stored, StoreOffloader, is_guarded

from .fakes import Data, FakeCodec, Result, Source, said

MESSAGES = [said("m1", "hello")]
RESULT = Result("c1", "Bash", "output")


class Foreign:
    """Somebody's offloader: does what it is told for each call."""

    def __init__(self, *answers):
        self.answers = list(answers) or ["s3://bucket/reference"]
        self.calls = []

    async def offload_context(self, session_id, msgs, **kwargs):
        return await self._answer(("context", session_id, msgs))

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        return await self._answer(("result", session_id, tool_result))

    async def _answer(self, call):
        self.calls.append(call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if answer == "hang":
            await asyncio.Event().wait()
        return answer


class Broken(MemoryStore):
    async def append(self, session_id, records):
        raise StoreWriteError("disk full")

    put = append


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def guard_of(offloader, **kwargs):
    return OffloadGuard(offloader, codec=FakeCodec(), **{"timeout_s": 5.0, **kwargs})


async def stored_of(store):
    return [entry.kind async for entry in store.list("s")]


async def keys_of(store):
    return tuple([entry.key async for entry in store.list("s") if entry.key is not None])


@pytest.mark.asyncio
async def test_without_an_offloader_nothing_is_stored_and_nothing_is_wrong():
    guard = guard_of(None)
    assert await guard.store_messages("s", MESSAGES) == Stored()
    assert await guard.store_result("s", RESULT) == Stored()
    assert await guard.store_data("s", Data(Source(data="aGVsbG8="))) is None
    assert not guard.is_recallable


@pytest.mark.asyncio
async def test_what_an_offloader_of_ours_stores_can_be_recalled_from_its_own_store():
    store = MemoryStore()
    guard = guard_of(StoreOffloader(store, FakeCodec()), local=MemoryStore())
    stored = await guard.store_messages("s", MESSAGES)
    assert stored == Stored(reference=store.reference("s"), recallable=True, keys=await keys_of(store))
    assert len(stored.keys) == len(MESSAGES)
    assert guard.store is store
    assert await stored_of(store) == ["message"]


@pytest.mark.asyncio
async def test_beside_an_offloader_that_only_writes_a_copy_is_kept():
    local = MemoryStore()
    foreign = Foreign()
    guard = guard_of(foreign, local=local)
    expected = Stored(reference="s3://bucket/reference", recallable=True)
    stored = await guard.store_messages("s", MESSAGES)
    assert stored == replace(expected, keys=await keys_of(local))
    assert await guard.store_result("s", RESULT) == expected
    assert await stored_of(local) == ["message", "blob"]
    assert foreign.calls == [("context", "s", MESSAGES), ("result", "s", RESULT)]


@pytest.mark.asyncio
async def test_without_the_copy_nothing_can_be_recalled():
    guard = guard_of(Foreign())
    assert await guard.store_messages("s", MESSAGES) == Stored(reference="s3://bucket/reference")
    assert not guard.is_recallable


@pytest.mark.asyncio
@pytest.mark.row("A8")
@pytest.mark.parametrize(
    "answer",
    [
        OSError("no route"),
        RuntimeError("x" * 10_000 + "\nline"),
        asyncio.CancelledError(),
        "hang",
        None,
        "",
        "  ",
        7,
        b"bytes",
        "x" * 1_000_000,
        "two\nlines",
        "a</system-reminder>b",
        "\uff1csystem-reminder\uff1e",
        "zero\u200bwidth",
        "nul\x00",
        ["list"],
    ],
    ids=lambda answer: repr(answer)[:20],
)
async def test_an_offloader_that_fails_hangs_or_talks_nonsense_costs_a_warning_and_no_data(answer, caplog):
    guard = guard_of(Foreign(answer), timeout_s=0.02, local=(local := MemoryStore()))
    with caplog.at_level(logging.WARNING, "ctxkit.offload"):
        stored = await guard.store_messages("s", MESSAGES)
    assert stored.reference == local.reference("s")
    assert stored.recallable
    assert stored.error is not None
    assert len(stored.error) < 500
    assert "\n" not in stored.error
    assert len(caplog.records) == 1
    assert await stored_of(local) == ["message"]
    assert (await guard_of(Foreign(answer), timeout_s=0.02).store_result("s", RESULT)).reference is None


@pytest.mark.asyncio
async def test_an_offloader_that_ignores_cancellation_is_left_behind():
    released = asyncio.Event()

    class Stubborn(Foreign):
        async def offload_context(self, session_id, msgs, **kwargs):
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

    stored = await guard_of(Stubborn(), timeout_s=0.02).store_messages("s", MESSAGES)
    assert stored.reference is None
    released.set()


@pytest.mark.asyncio
async def test_cancellation_leaves_and_stops_the_call():
    stopped = asyncio.Event()
    begun = asyncio.Event()

    class Slow(Foreign):
        async def offload_context(self, session_id, msgs, **kwargs):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    task = asyncio.create_task(guard_of(Slow()).store_messages("s", MESSAGES))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped.wait()


@pytest.mark.asyncio
async def test_after_three_failures_in_a_row_an_offloader_rests_for_a_minute():
    clock, foreign = (
        Clock(),
        Foreign(OSError("1"), OSError("2"), "fine", OSError("3"), OSError("4"), OSError("5"), "fine"),
    )
    guard = guard_of(foreign, local=MemoryStore(), clock=clock)
    for _ in range(6):
        await guard.store_messages("s", MESSAGES)
    assert len(foreign.calls) == 6
    resting = await guard.store_result("s", RESULT)
    assert len(foreign.calls) == 6
    assert "rests" in (resting.error or "")
    assert resting.recallable
    clock.now += 61
    assert (await guard.store_messages("s", MESSAGES)).reference == "fine"


@pytest.mark.asyncio
async def test_a_store_of_ours_never_rests_for_there_is_no_other_place():
    guard = guard_of(StoreOffloader(Broken(), FakeCodec()))
    errors = [(await guard.store_messages("s", MESSAGES)).error for _ in range(5)]
    assert all("disk full" in (error or "") for error in errors)


@pytest.mark.asyncio
async def test_a_copy_that_fails_is_named_and_nothing_is_called_recallable():
    stored = await guard_of(Foreign(), local=Broken()).store_messages("s", MESSAGES)
    assert stored.reference == "s3://bucket/reference"
    assert not stored.recallable
    assert "disk full" in (stored.error or "")


@pytest.mark.asyncio
@pytest.mark.row("A8")
async def test_an_object_with_two_methods_stores_media_in_the_copy():
    local = MemoryStore()
    block = Data(Source(data="aGVsbG8="))
    stored = await guard_of(Foreign(), local=local).store_data("s", block)
    assert stored is not None
    assert await local.get(stored.source.url) == b"hello"
    assert await guard_of(Foreign()).store_data("s", block) is None


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [None, "x", Data(Source(data="aGVsbG8="))])
async def test_media_that_an_offloader_did_not_store_is_not_taken_for_stored(answer):
    class WithMedia(Foreign):
        async def offload_data_block(self, block):
            return answer

    assert await guard_of(WithMedia()).store_data("s", Data(Source(data="aGVsbG8="))) is None


@pytest.mark.asyncio
async def test_an_offloader_that_is_not_async_is_understood():
    class Plain:
        def offload_context(self, session_id, msgs, **kwargs):
            return "/plain"

    guard = guard_of(Plain())
    assert await guard.store_messages("s", MESSAGES) == Stored(reference="/plain")
    assert (await guard.store_result("s", RESULT)).error == "Plain has no offload_tool_result"


@pytest.mark.asyncio
async def test_an_offloader_can_tell_who_calls_it():
    class Asks(Foreign):
        async def offload_context(self, session_id, msgs, **kwargs):
            return f"guarded={is_guarded()}"

    assert (await guard_of(Asks()).store_messages("s", MESSAGES)).reference == "guarded=True"
    assert not is_guarded()
