"""Promises of an offloader under concurrency and cancellation, and when its place is opened anew."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from ctxkit.testing.suites._base import Bench, promise
from ctxkit.testing.suites._cancel import When, at_each_await
from ctxkit.testing.suites._offloader import SESSION, OffloaderPart, result, said, store_messages, usable, words_in

_WHEN: Final[Sequence[When]] = ("early", "late")
_TASKS: Final = 50


class TaskPromises(OffloaderPart):
    """What an offloader promises to many tasks at once."""

    @promise
    async def test_many_tasks_at_once_lose_nothing(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        words = [f"word{number}" for number in range(_TASKS)]
        references = await asyncio.gather(*(store_messages(offloader, [word]) for word in words))
        for word, reference in zip(words, references, strict=True):
            found = words_in(await self.text(offloader, reference), [word])
            assert found == [word], "what a task was told is stored is not under the reference that it got"

    @promise
    async def test_many_results_of_one_id_are_all_kept(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        words = [f"word{number}" for number in range(_TASKS)]
        references = await asyncio.gather(*(offloader.offload_tool_result(SESSION, result(word)) for word in words))
        for word, reference in zip(words, references, strict=True):
            found = words_in(await self.text(offloader, usable(reference)), words)
            assert found == [word], "results that came at the same time were mixed up or overwritten"

    @promise
    async def test_the_same_call_from_many_tasks_is_stored_once(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        words = ["one", "two"]
        references = await asyncio.gather(*(store_messages(offloader, words) for _ in range(16)))
        assert words_in(await self.text(offloader, *references), words) == words
        kept = await asyncio.gather(*(offloader.offload_tool_result(SESSION, result("word")) for _ in range(16)))
        assert len(set(kept)) == 1, "the same result was stored more than once"

    @promise
    async def test_cancelled_calls_that_are_repeated_are_stored_once(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        for when in _WHEN:
            calls = 0

            async def write(number: int, when: When = when) -> None:
                nonlocal calls
                calls = number + 1
                await store_messages(offloader, [f"{when}{number}"])

            await store_messages(offloader, [f"{when}before"])
            await at_each_await(write, when=when)
            references = [await store_messages(offloader, [f"{when}{number}"]) for number in range(calls)]
            words = [f"{when}before", *(f"{when}{number}" for number in range(calls))]
            found = words_in(await self.text(offloader, *references), words)
            assert sorted(found) == sorted(words), "a cancelled call lost messages, or its repetition stored them twice"

    @promise
    async def test_a_cancelled_result_that_is_repeated_is_whole(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        for when in _WHEN:

            async def write(number: int, when: When = when) -> None:
                await offloader.offload_tool_result(SESSION, result(f"{when}{number}", text="x" * 70_000 + " tail "))

            calls = await at_each_await(write, when=when) + 1
            for number in range(calls):
                block = result(f"{when}{number}", text="x" * 70_000 + " tail ")
                reference = usable(await offloader.offload_tool_result(SESSION, block))
                words = [f"{when}{number}", "tail"]
                assert words_in(await self.text(offloader, reference), words) == words


class ClientPromises(OffloaderPart):
    """What an offloader promises when its place is opened more than once, or fails for a while."""

    @promise
    async def test_what_was_stored_is_there_when_the_place_is_opened_anew(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        log = await store_messages(offloader, ["one", "two"])
        kept = await offloader.offload_tool_result(SESSION, result("word"))
        await bench.close()
        again = await bench.open()
        assert words_in(await self.text(again, kept), ["word"]) == ["word"]
        later = await store_messages(again, ["two", "three"])
        words = ["one", "two", "three"]
        assert words_in(await self.text(again, log, later), words) == words

    @promise
    async def test_several_clients_lose_nothing(self, bench: Bench[Any]) -> None:
        clients = [await bench.open() for _ in range(3)]
        words = [f"word{number}" for number in range(30)]
        references = await asyncio.gather(
            *(store_messages(clients[number % 3], [word]) for number, word in enumerate(words))
        )
        for word, reference in zip(words, references, strict=True):
            found = words_in(await self.text(clients[0], reference), [word])
            assert found == [word], "one client has overwritten what another one was told is stored"

    def outages(self, place: Path) -> Iterable[tuple[str, AbstractContextManager[object]]]:
        """Return what may go wrong with the back end, to have the promises checked while it does.

        Each item is what it is, for messages, and a context in which it happens: a server that is stopped, a disk
        that is full, a system call that fails. An offloader may raise or succeed; it may not answer and lose.
        """
        return ()

    @promise
    async def test_a_back_end_that_fails_costs_no_message(self, bench: Bench[Any]) -> None:
        outages = [*self.outages(bench.place)]
        if not outages:
            pytest.skip("outages() gives none: define it to say how the back end can be made to fail")
        offloader = await bench.open()
        for number, (what, outage) in enumerate(outages):
            session = f"session-{number}"
            words = ["before", "during", "after"]
            told = [usable(await offloader.offload_context(session, msgs=[said("before")]))]
            with outage, suppress(Exception):  # it may raise what it likes: the guard handles that
                told.append(usable(await offloader.offload_context(session, msgs=[said("during")])))
            found = words_in(await self.text(offloader, *told), words)
            assert found[:1] == ["before"], f"{what}: what was stored before is gone"
            assert len(told) == len(found) or len(told) == 1, f"{what}: acknowledged, but not there"
            messages = [said("during"), said("after")]
            told.append(usable(await offloader.offload_context(session, msgs=messages)))
            found = words_in(await self.text(offloader, *told), words)
            assert found == words, f"{what}: what was stored is gone, or a call that was repeated is there twice"
