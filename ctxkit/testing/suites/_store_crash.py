"""Promises that hold when processes die: what was acknowledged is there, once, whole, in order."""

import asyncio
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from ctxkit.errors import SessionLockedError
from ctxkit.offload import Record, Store, read_records
from ctxkit.offload.capabilities import Leases
from ctxkit.testing.suites._base import Bench, not_offered, place_in, run
from ctxkit.testing.suites._processes import Child, all_at_once, must_outlive, must_share, one_after_another
from ctxkit.testing.suites._reading import OWN_KEY, blobs, check_numbers, listed
from ctxkit.testing.suites._samples import record
from ctxkit.testing.suites._store import StorePart

_TASKS: Final = 4
"""Tasks of a process that is killed: a store that groups what they write must answer each of them rightly."""
_BATCH: Final = 3
"""Most records of one call."""
_LONGEST_S: Final = 0.08
"""Seconds from the first acknowledgement to the kill, at most."""
_ROUNDS: Final = 10
"""Rounds on one session: a longer one makes reading it, not writing it, the test."""
_BESIDE: Final = 50
"""Calls of a process that writes beside one that is killed, at most: it is to go on for longer, not for ever."""
_FOREVER: Final = 1_000_000
_LEASE_S: Final = 2.0


def _call(name: str, number: int) -> Sequence[Record]:
    """Return the records of a writer's n-th call: 1 to 3, of 1 byte to 200 kB."""
    size = 200_000 if number % 23 == 7 else number * 7919 % 9000
    return [record(f"{name}-{number}-{at}", "x" * size) for at in range(1 + number % _BATCH)]


def _blob(name: str, number: int) -> bytes:
    return f"{name}-{number};".encode() * (1 + number * 631 % 9000)


def _blob_name(name: str, number: int) -> str:
    return f"blob-{name}-{number}.txt"


Say = Callable[[str], None]


class CrashPromises(StorePart):
    """What a store promises across processes, and when they are killed."""

    def test_what_a_killed_process_was_told_is_there_once_whole_and_in_order(self, tmp_path: Path) -> None:
        must_outlive(self)
        chance = random.Random(1)
        calls = [(_session(turn), f"w{turn}") for turn in range(self.kills)]
        children = one_after_another(self, place_in(tmp_path), "write_until_killed", calls=calls)
        with closing(children):
            for (session, name), child in zip(calls, children, strict=True):
                child.go()
                child.wait_for_a_word()
                said = child.kill_after(chance.uniform(0.0, _LONGEST_S))
                run(self, tmp_path, partial(_check_writers, session=session, said={name: said}, repeat=True))

    def test_a_killed_process_disturbs_none_that_write_beside_it(self, tmp_path: Path) -> None:
        must_outlive(self)
        must_share(self)
        chance = random.Random(2)
        for turn in range(max(1, self.kills // 6)):
            session = _session(turn)
            names = [f"o{turn}x{number}" for number in range(self.writers - 1)]
            with ExitStack() as stack:
                doomed = stack.enter_context(Child(self, place_in(tmp_path), "write_until_killed", session, f"d{turn}"))
                others = self._writers(
                    stack, tmp_path, session=session, names=names, appends=min(self.appends, _BESIDE)
                )
                all_at_once((doomed, *others.values()))
                doomed.wait_for_a_word()
                said = {f"d{turn}": doomed.kill_after(chance.uniform(0.0, _LONGEST_S))}
                said |= {name: child.finish() for name, child in others.items()}
            run(self, tmp_path, partial(_check_writers, session=session, said=said, repeat=True))

    def test_many_processes_at_once_lose_and_repeat_nothing(self, tmp_path: Path) -> None:
        must_share(self)
        names = [f"w{number}" for number in range(self.writers)]
        with ExitStack() as stack:
            children = self._writers(stack, tmp_path, session="s", names=names, appends=self.appends)
            all_at_once(children.values())
            said = {name: child.finish() for name, child in children.items()}
        run(self, tmp_path, partial(_check_writers, session="s", said=said, repeat=False, shared=self.appends))

    def test_the_lease_of_a_killed_owner_goes_to_the_next_one(self, tmp_path: Path) -> None:
        must_share(self)

        async def offered(_: Any, bench: Bench[Store]) -> None:
            store = await bench.open()
            if not isinstance(store, Leases):
                not_offered(store, Leases)

        async def take(_: Any, bench: Bench[Store]) -> None:
            store = await bench.open()
            assert isinstance(store, Leases)
            try:
                held = await store.lease("s", owner={"agent": "bob"}, ttl_s=60.0, timeout_s=5 * _LEASE_S)
            except SessionLockedError as exc:
                pytest.fail(f"{5 * _LEASE_S:g} s after its owner was killed a session is still held: {exc}")
            assert held.epoch > epoch, "the next owner has a higher epoch"
            await held.release()

        run(self, tmp_path, offered)
        with Child(self, place_in(tmp_path), "hold", "s") as child:
            child.go()
            epoch = int(child.wait_for_a_word())
            child.kill_after(0.0)
        run(self, tmp_path, take)

    def _writers(
        self, stack: ExitStack, tmp_path: Path, *, session: str, names: Sequence[str], appends: int
    ) -> Mapping[str, Child]:
        args = (self, place_in(tmp_path), "write_all", session)
        return {name: stack.enter_context(Child(*args, name, str(appends))) for name in names}

    async def write_until_killed(self, store: Store, say: Say, session: str, name: str) -> None:
        """Write as several tasks, in a process of its own, and say each number that was acknowledged."""
        await asyncio.gather(*(_write(store, say, session, f"{name}t{task}", _FOREVER) for task in range(_TASKS)))

    async def write_all(self, store: Store, say: Say, session: str, name: str, count: str) -> None:
        """Write so many calls, in a process of its own, each with a record that all writers share."""
        await _write(store, say, session, name, int(count), is_shared=True)

    async def hold(self, store: Store, say: Say, session: str) -> None:
        """Take a lease, in a process of its own, say its epoch and keep it."""
        assert isinstance(store, Leases)
        held = await store.lease(session, owner={"agent": "alice"}, ttl_s=_LEASE_S)
        say(str(held.epoch))
        await asyncio.Event().wait()


async def _write(store: Store, say: Say, session: str, name: str, count: int, *, is_shared: bool = False) -> None:
    for number in range(count):
        extra = [record(f"shared-{number}")] if is_shared else []
        await store.append(session, [*_call(name, number), *extra])
        say(f"{name} {number}")
        if number % 5 == 0:
            reference = await store.put(session, _blob_name(name, number), _blob(name, number))
            say(f"{name} {number} {reference}")


async def _check_writers(
    _: object, bench: Bench[Store], *, session: str, said: Mapping[str, Sequence[str]], repeat: bool, shared: int = 0
) -> None:
    store = await bench.open()
    told, references = _told([line for lines in said.values() for line in lines])
    found = await _contents(store, session)
    assert len(found) == len(set(found)), "a record is there twice"
    await check_numbers(store, session)
    if shared:
        assert set(found) >= {f"shared-{number}" for number in range(shared)}
    for name, numbers in told.items():
        mine = [one for one in found if one.startswith(f"{name}-")]
        wanted = [one for number in range(numbers + 2) for one in _ids(name, number)]
        assert mine == wanted[: len(mine)], f"the records of writer {name} are out of order"
        missing = set(wanted[: len([one for number in range(numbers + 1) for one in _ids(name, number)])]) - set(mine)
        assert not missing, f"acknowledged, but not there: {sorted(missing)[:5]}"
        ends = {len([one for number in range(end) for one in _ids(name, number)]) for end in range(numbers + 3)}
        assert len(mine) in ends, f"a call of writer {name} is there in part"
    for (name, number), reference in references.items():
        assert await store.get(reference) == _blob(name, number), f"blob {number} of writer {name} is not whole"
    for entry in await blobs(store, session):
        _, name, number_txt = (entry.name or "").split("-", 2)
        assert await store.get(entry.reference) == _blob(name, int(number_txt.split(".")[0])), "a blob is there in part"
    if repeat:
        # Who was not told asks again, as after any failure.
        for name, numbers in told.items():
            for number in (numbers, numbers + 1):
                await store.append(session, _call(name, number))
        again = await _contents(store, session)
        assert len(again) == len(set(again)), "a call that was repeated after the crash was stored twice"
        assert again[: len(found)] == found, "what was there has changed"
        await check_numbers(store, session)


def _told(lines: Sequence[str]) -> tuple[Mapping[str, int], Mapping[tuple[str, int], str]]:
    """Return the last number that each writer was told of, and the references of blobs."""
    told: dict[str, int] = {}
    references: dict[tuple[str, int], str] = {}
    for line in lines:
        name, number, *reference = line.split(" ", 2)
        told[name] = max(told.get(name, 0), int(number))
        if reference:
            references[name, int(number)] = reference[0]
    return told, references


async def _contents(store: Store, session: str) -> Sequence[str]:
    """Return the ids of all records, having checked that each has the body that it was sent with."""
    found = []
    async for entry, data in read_records(store, await listed(store, session)):
        body = json.loads(data)
        body.pop(OWN_KEY, None)
        name, number, *rest = body["id"].split("-")
        wanted = _call(name, int(number))[int(rest[0])] if rest else record(body["id"])
        assert body == json.loads(wanted.body), f"record {entry.sequence} has changed: {_digest(data)}"
        found.append(body["id"])
    return found


def _ids(name: str, number: int) -> Sequence[str]:
    return [f"{name}-{number}-{at}" for at in range(1 + number % _BATCH)]


def _session(turn: int) -> str:
    return f"crash-{turn // _ROUNDS}"


def _digest(data: bytes) -> str:
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]}"
