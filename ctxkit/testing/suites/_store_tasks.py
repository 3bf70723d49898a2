"""Promises under concurrency: many tasks, many clients, and calls that are cancelled."""

import asyncio
from collections.abc import Sequence

from ctxkit.errors import StoreWriteError
from ctxkit.offload import Record, Store
from ctxkit.testing.suites._base import Bench, promise
from ctxkit.testing.suites._cancel import When, at_each_await
from ctxkit.testing.suites._reading import blobs, bodies, check_numbers, expected, ids
from ctxkit.testing.suites._samples import SESSION, record
from ctxkit.testing.suites._store import StorePart

_WHEN: Sequence[When] = ("early", "late")
_CALLS = 4
"""Calls of each task."""


class TaskPromises(StorePart):
    """What a store promises to many tasks at once."""

    @promise
    async def test_many_tasks_at_once_lose_and_repeat_nothing(self, bench: Bench[Store]) -> None:
        store = await bench.open()

        async def write(task: int) -> None:
            for number in range(_CALLS):
                await store.append(SESSION, [record(f"{task}-{number}"), record(f"shared-{number}")])

        await asyncio.gather(*(write(task) for task in range(self.tasks)))
        found = await ids(store, SESSION)
        wanted = {f"{task}-{number}" for task in range(self.tasks) for number in range(_CALLS)}
        assert len(found) == len(set(found)), "a record is there twice"
        assert set(found) == wanted | {f"shared-{number}" for number in range(_CALLS)}, "a record is missing"
        for task in range(self.tasks):
            mine = [one for one in found if one.startswith(f"{task}-")]
            assert mine == [f"{task}-{number}" for number in range(_CALLS)], "a task's records are out of order"
        await check_numbers(store, SESSION)

    @promise
    async def test_the_same_call_from_many_tasks_is_stored_once(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record("a"), record("b")]
        references = await asyncio.gather(*(store.append(SESSION, sent) for _ in range(64)))
        assert len(set(references)) == 1
        assert await bodies(store, SESSION) == expected(sent)
        names = await asyncio.gather(*(store.put(SESSION, "same.txt", b"x" * 5000) for _ in range(64)))
        assert len(set(names)) == 1, "the same content was stored more than once"
        assert len(await blobs(store, SESSION)) == 1

    @promise
    async def test_each_task_gets_its_own_answer(self, bench: Bench[Store]) -> None:
        store = await bench.open()

        async def write(task: int) -> str | None:
            bad = [Record(key="bad", body="no json")] if task % 5 == 0 else []
            try:
                return await store.append(f"s{task % 16}", [record(f"m{task}"), *bad])
            except StoreWriteError:
                return None

        answers = await asyncio.gather(*(write(task) for task in range(self.tasks)))
        for task, answer in enumerate(answers):
            wanted = None if task % 5 == 0 else await asyncio.to_thread(store.reference, f"s{task % 16}")
            assert answer == wanted, f"task {task} got the answer of another one's call"
        for number in range(16):
            good = {f"m{task}" for task in range(number, self.tasks, 16) if task % 5}
            assert set(await ids(store, f"s{number}")) == good, "a call that failed took others along, or left a part"

    @promise
    async def test_many_contents_under_one_name_are_all_kept(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        data = [b"%d;" % number * 1000 for number in range(64)]
        references = await asyncio.gather(*(store.put(SESSION, "same.txt", one) for one in data))
        assert len(set(references)) == len(data), "two contents have one reference"
        for reference, one in zip(references, data, strict=True):
            assert await store.get(reference) == one, "a task got the reference of another one's content"

    @promise
    async def test_a_reader_never_sees_a_part(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        calls = [[record(f"{call}-{at}", "x" * 3000) for at in range(3)] for call in range(20)]
        wanted = expected([one for call in calls for one in call])

        async def write() -> None:
            for call in calls:
                await store.append(SESSION, call)

        writing = asyncio.create_task(write())
        while not writing.done():
            await asyncio.sleep(0)  # a store in memory never waits by itself
            found = await bodies(store, SESSION)
            assert found == wanted[: len(found)], "a reader saw records out of order or changed"
            assert len(found) % 3 == 0, "a reader saw a part of a call"
        await writing
        assert await bodies(store, SESSION) == wanted


class CancelPromises(StorePart):
    """What a store promises about calls that are cancelled, at each of their awaits."""

    @promise
    async def test_a_cancelled_append_that_is_repeated_is_stored_once(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for when in _WHEN:
            calls: list[Sequence[Record]] = []

            async def write(number: int, when: When = when, calls: list[Sequence[Record]] = calls) -> None:
                calls.append([record(f"{when}-{number}-{at}", "x" * 2000) for at in range(3)])
                await store.append(f"cancelled-{when}", calls[-1])

            await at_each_await(write, when=when)
            for call in calls:
                await store.append(f"cancelled-{when}", call)
            found = await ids(store, f"cancelled-{when}")
            assert len(found) == len(set(found)), "a cancelled call and its repetition stored a record twice"
            assert set(found) == {f"{when}-{call}-{at}" for call in range(len(calls)) for at in range(3)}
            for number in range(len(calls)):
                places = [found.index(f"{when}-{number}-{at}") for at in range(3)]
                assert places == list(range(places[0], places[0] + 3)), "a cancelled call was stored in parts"
            await check_numbers(store, f"cancelled-{when}")

    @promise
    async def test_a_cancelled_put_that_is_repeated_is_stored_once(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        for when in _WHEN:
            contents: list[bytes] = []

            async def write(number: int, when: When = when, contents: list[bytes] = contents) -> None:
                contents.append(f"{when}-{number};".encode() * 5000)
                await store.put(SESSION, f"{when}.txt", contents[-1])

            await at_each_await(write, when=when)
            for data in contents:
                reference = await store.put(SESSION, f"{when}.txt", data)
                assert await store.get(reference) == data, "a cancelled put has left a part behind"
            names = [entry.name or "" for entry in await blobs(store, SESSION)]
            assert len([name for name in names if name.startswith(when)]) == len(contents)

    @promise
    async def test_cancelled_reads_leave_the_store_usable(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        log = await store.append(SESSION, [record("a"), record("b")])

        async def read(_: int) -> None:
            await store.get(log)
            assert await ids(store, SESSION) == ["a", "b"]

        for when in _WHEN:
            await at_each_await(read, when=when)
        await store.append(SESSION, [record("c")])
        assert await ids(store, SESSION) == ["a", "b", "c"]

    @promise
    async def test_one_cancelled_task_does_not_disturb_the_others(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        tasks = [asyncio.create_task(store.append(SESSION, [record(f"m{number}")])) for number in range(64)]
        for turn in range(32):
            await asyncio.sleep(0)
            tasks[2 * turn].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        told = {f"m{number}" for number, answer in enumerate(answers) if isinstance(answer, str)}
        strange = [answer for answer in answers if not isinstance(answer, str | asyncio.CancelledError)]
        assert strange == [], "a cancelled call gave others an error"
        assert {f"m{number}" for number in range(1, 64, 2)} <= told, "a call that nobody cancelled was cancelled"
        assert told <= set(await ids(store, SESSION)), "what a task was told is stored is missing"
        await check_numbers(store, SESSION)


class ClientPromises(StorePart):
    """What a store promises when its place is opened more than once, at the same time or one after another."""

    @promise
    async def test_what_was_stored_is_there_when_the_place_is_opened_anew(self, bench: Bench[Store]) -> None:
        store = await bench.open()
        sent = [record(f"m{number}", "é" * number) for number in range(20)]
        await store.append(SESSION, sent)
        reference = await store.put(SESSION, "x.txt", b"x")
        entries = [entry async for entry in store.list(SESSION)]
        await bench.close()
        again = await bench.open()
        assert [entry async for entry in again.list(SESSION)] == entries
        assert await bodies(again, SESSION) == expected(sent)
        assert await again.get(reference) == b"x"
        await again.append(SESSION, [sent[-1], record("next")])
        assert await ids(again, SESSION) == [*(f"m{number}" for number in range(20)), "next"]
        await check_numbers(again, SESSION)

    @promise
    async def test_what_one_client_was_told_is_seen_by_another(self, bench: Bench[Store]) -> None:
        one, other = await bench.open(), await bench.open()
        assert await ids(one, SESSION) == await ids(other, SESSION) == []
        for number in range(5):
            writer, reader = (one, other) if number % 2 else (other, one)
            reference = await writer.append(SESSION, [record(f"m{number}"), record("shared")])
            assert reference == await asyncio.to_thread(reader.reference, SESSION)
            assert len(await ids(reader, SESSION)) == number + 2, "what was accepted is seen by every later list"
            blob = await writer.put(SESSION, "x.txt", b"%d" % number)
            assert await reader.get(blob) == b"%d" % number
            assert await reader.put(SESSION, "x.txt", b"%d" % number) == blob
        assert len(await blobs(one, SESSION)) == len(await blobs(other, SESSION)) == 5
        await check_numbers(one, SESSION)

    @promise
    async def test_many_clients_at_once_lose_and_repeat_nothing(self, bench: Bench[Store]) -> None:
        clients = [await bench.open() for _ in range(4)]

        async def write(task: int) -> None:
            for number in range(8):
                await clients[task % 4].append(SESSION, [record(f"{task}-{number}"), record(f"shared-{number}")])

        await asyncio.gather(*(write(task) for task in range(16)))
        found = await ids(clients[0], SESSION)
        assert len(found) == len(set(found)) == 16 * 8 + 8
        for task in range(16):
            assert [one for one in found if one.startswith(f"{task}-")] == [f"{task}-{number}" for number in range(8)]
        await check_numbers(clients[0], SESSION)
