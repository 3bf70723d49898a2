"""Lives of a store: what it is asked for at random, with deaths and failures in between, and whether it kept its word."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from ctxkit.errors import StaleOwnerError, StoreError
from ctxkit.offload import BLOB, Entry, FileLimits, FileStore, Record, lines, read_records

from .recorder import Recorder

SESSION = "s"
EPOCH = "epoch "


@dataclass
class Life:
    """What happened on one disk."""

    seed: str
    limits: FileLimits
    records: dict[str, str] = field(default_factory=dict)
    """Bodies of all that was ever sent, by key."""
    blobs: dict[str, tuple[str | None, bytes]] = field(default_factory=dict)
    """Owner and content of all blobs that were ever sent, by name."""
    calls: list[set[str]] = field(default_factory=list)
    """Keys of new records that were sent together, and not again since."""
    refused: set[str] = field(default_factory=set)
    """Keys of records that a call failed with: it may have stored them all the same, so their place is not known."""
    epochs: int = 0
    """So many owners have asked for the session, one after another."""


@dataclass
class Told:
    """What the stores have said is stored."""

    words: set[str] = field(default_factory=set)
    """Keys of records and names of blobs."""
    order: list[str] = field(default_factory=list)
    """Keys of records that were stored when they were sent first."""
    epoch: int = 0

    def add(self, life: Life, word: str) -> None:
        """Take in what was said next."""
        if word.startswith(EPOCH):
            self.epoch = max(self.epoch, int(word.removeprefix(EPOCH)))
        elif word not in self.words:
            self.words.add(word)
            if word in life.records and word not in life.refused:
                self.order.append(word)


class Liver:
    """Lets stores live on a disk that is recorded.

    Args:
        recorder: Of the disk.
        chance: What happens.
        life: Where it is written down.
    """

    def __init__(self, recorder: Recorder, chance: Random, life: Life) -> None:
        self._recorder = recorder
        self._chance = chance
        self._life = life
        self._stores = [self._open(), self._open()]

    def _open(self) -> FileStore:
        return FileStore(self._recorder.disk / "store", limits=self._life.limits)

    async def live(self, steps: int) -> None:
        """Do so many things, some of them while calls fail."""
        for _ in range(steps):
            at = self._chance.randrange(2)
            if self._chance.random() < 0.35:
                is_death = self._chance.random() < 0.7
                self._recorder.fail_after(self._chance.randint(1, 14), lasting=is_death)
                await self._do(at)
                if is_death:
                    await self._stores[at].aclose()  # only lets go: every call that changes something fails
                    self._stores[at] = self._open()
                self._recorder.fail_after(None)
            else:
                await self._do(at)
        for store in self._stores:
            await store.aclose()

    async def _do(self, at: int) -> None:
        store = self._stores[at]
        deeds = {self._append: 3, self._append_again: 1, self._put: 2, self._fence: 1, self._read: 1}
        (deed,) = self._chance.choices(list(deeds), list(deeds.values()))
        await deed(store)

    async def _append(self, store: FileStore) -> None:
        calls = [self._new() for _ in range(self._chance.randint(1, 3))]
        self._life.calls += [{one.key for one in call} for call in calls]
        await asyncio.gather(*(self._send(store, call) for call in calls))

    async def _append_again(self, store: FileStore) -> None:
        """Repeat some of what was sent, as one does who was not told, and something new."""
        known = list(self._life.records)[-6:]
        again = self._chance.sample(known, self._chance.randint(0, len(known)))
        self._life.calls = [call for call in self._life.calls if call.isdisjoint(again)]
        await self._send(store, [Record(key=key, body=self._life.records[key]) for key in again] + self._new())

    def _new(self) -> list[Record]:
        found = []
        for _ in range(self._chance.randint(1, 2)):
            key = f"{len(self._life.records)}"
            size = self._chance.choice([1, 40, self._chance.randint(1, 600), self._chance.randint(1, 3000)])
            body = json.dumps({"id": key, "text": (f"é{key}\\" * size)[:size]}, ensure_ascii=False)
            self._life.records[key] = body
            found.append(Record(key=key, body=body))
        return found

    async def _send(self, store: FileStore, records: Sequence[Record]) -> None:
        if not records:
            return
        if await _is_done(store.append(SESSION, records)):
            for one in records:
                self._recorder.told(one.key)
        else:
            self._life.refused |= {one.key for one in records}

    async def _put(self, store: FileStore) -> None:
        """Store a blob, a new one or one that was sent before, of the session or of all."""
        known = list(self._life.blobs)
        if known and self._chance.random() < 0.4:
            name = self._chance.choice(known)
        else:
            name = f"blob-{len(known)}.txt"
            owner = self._chance.choice([SESSION, None])
            self._life.blobs[name] = owner, f"{name};".encode() * self._chance.randint(1, 400)
        owner, content = self._life.blobs[name]
        is_whole = self._chance.random() < 0.5
        if await _is_done(
            store.put(owner, name, content) if is_whole else store.put_chunks(owner, name, _halves(content))
        ):
            self._recorder.told(name)

    async def _fence(self, store: FileStore) -> None:
        self._life.epochs += 1
        if await _is_done(store.fence(SESSION, self._life.epochs)):
            self._recorder.told(f"{EPOCH}{self._life.epochs}")

    async def _read(self, store: FileStore) -> None:
        await _is_done(_listed(store))


async def _halves(content: bytes) -> AsyncIterator[bytes]:
    yield content[: len(content) // 2]
    yield content[len(content) // 2 :]


async def _is_done(call: Coroutine[object, object, object]) -> bool:
    try:
        await call
    except StoreError:
        return False
    return True


async def _listed(store: FileStore) -> list[Entry]:
    return [entry async for entry in store.list(SESSION)]


async def look(place: Path, life: Life, told: Told, *, is_power_cut: bool) -> None:
    """Ask a fresh store for all that was told of, send everything again, and ask once more.

    Args:
        place: The disk as it is found.
        life: What was ever sent.
        told: What is to be there.
        is_power_cut: Whether a part of what was not synced may be lost, and the rest of it not. What was not acknowledged
            may then be there in part: single records of a call, and numbers with a gap.

    Raises:
        AssertionError: A word was not kept.
    """
    root = place / "store"
    everything = Told(words={*life.records, *life.blobs}, order=told.order, epoch=told.epoch)
    store = FileStore(root, limits=life.limits)
    try:
        await _look(store, life, told, is_power_cut=is_power_cut)
        await _send_all(store, life)
    finally:
        await store.aclose()
    store = FileStore(root, limits=life.limits)
    try:
        await _look(store, life, everything, is_power_cut=is_power_cut)
    finally:
        await store.aclose()
    for log in root.glob(f"sessions/{SESSION}/context*.jsonl"):
        for line in log.read_bytes().split(b"\n"):
            if line.strip():
                _parse(line, log)


async def _look(store: FileStore, life: Life, told: Told, *, is_power_cut: bool) -> None:
    entries = await _listed(store)
    records = [entry for entry in entries if entry.kind != BLOB]
    keys = [entry.key or "" for entry in records]
    assert len(keys) == len(set(keys)), f"twice: {keys}"
    lost = {word for word in told.words if word in life.records} - set(keys)
    assert not lost, f"lost: {sorted(lost)} of {keys}"
    assert [key for key in keys if key in set(told.order)] == told.order, f"out of order: {keys}"
    halves = [sorted(call) for call in life.calls if not (call <= set(keys) or call.isdisjoint(keys))]
    assert is_power_cut or not halves, f"half a call: {halves} in {keys}"
    numbers = [entry.sequence or 0 for entry in records]
    expected = sorted(set(numbers)) if is_power_cut else list(range(1, len(records) + 1))
    assert numbers == expected, f"numbers: {numbers}"
    async for entry, data in read_records(store, records):
        assert lines.bare(data) == life.records[entry.key or ""].encode(), f"record {entry.key} is not what was sent"
    names = {entry.name: entry.reference for entry in entries if entry.kind == BLOB}
    for name, (owner, content) in life.blobs.items():
        assert name not in told.words or owner is None or name in names, f"lost: {name}"
        if name in names or (owner is None and name in told.words):
            reference = names[name] if owner else store.reference(None, name, content)
            assert await store.get(reference) == content, f"blob {name} is not what was sent"
    if told.epoch > 1:
        with pytest.raises(StaleOwnerError):
            await store.fence(SESSION, told.epoch - 1)


async def _send_all(store: FileStore, life: Life) -> None:
    await store.append(SESSION, [Record(key=key, body=body) for key, body in life.records.items()])
    for name, (owner, content) in life.blobs.items():
        await store.put(owner, name, content)


def _parse(line: bytes, log: Path) -> None:
    try:
        json.loads(line)
    except ValueError:
        pytest.fail(f"a line of {log.name} is no JSON: {line[:80]!r}")
