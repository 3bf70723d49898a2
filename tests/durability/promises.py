"""What writers were told is stored, and whether it is."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ctxkit.errors import StaleOwnerError
from ctxkit.offload import BLOB, FileLimits, FileStore, lines, read_records

from .killed import SESSION, TASKS, blob_name, blob_of, body_of, record_of, session_stores, state_of


@dataclass
class Promises:
    """All that was promised on one directory, by a store that is asked after each death."""

    root: Path
    limits: FileLimits
    records: set[str] = field(default_factory=set)
    """Keys."""
    blobs: set[str] = field(default_factory=set)
    """Names."""
    epoch: int = 0
    states: dict[tuple[str, str], int] = field(default_factory=dict)
    """By the letter of the store and the name of the writer, the number of the last one."""
    retried: int = 0
    retried_in_vain: int = 0
    """Records that were sent again though they were there, for nobody had been told."""
    _in_flight: list[tuple[str, int]] = field(default_factory=list)

    def take(self, name: str, told: Iterable[str]) -> None:
        """Note what a writer was told before it died."""
        appended = set()
        for word in told:
            letter, number = word[0], int(word[1:])
            if letter == "A":
                appended.add(number)
            elif letter == "B":
                self.blobs.add(blob_name(name, number))
            elif letter == "E":
                self.epoch = max(self.epoch, number)
            else:
                self.states[letter, name] = number
        self.records |= {f"{name}-{number}" for number in appended}
        batches = max(appended, default=-1) // TASKS + 2
        self._in_flight += [(name, number) for number in range(batches * TASKS) if number not in appended]

    def check(self, *, contiguous: bool) -> None:
        """Ask a fresh store for all of it, send again what nobody was told of, and ask once more."""
        asyncio.run(self._check(contiguous=contiguous))

    async def _check(self, *, contiguous: bool) -> None:
        store = FileStore(self.root, limits=self.limits)
        try:
            there = await self._read(store, contiguous=contiguous)
            again = [record_of(name, number) for name, number in self._in_flight]
            await store.append(SESSION, again)
            self.retried += len(again)
            self.retried_in_vain += len(there & {one.key for one in again})
            self.records |= {one.key for one in again}
            self._in_flight.clear()
            if self.epoch > 1:
                with pytest.raises(StaleOwnerError):
                    await store.fence(SESSION, self.epoch - 1)
        finally:
            await store.aclose()
        store = FileStore(self.root, limits=self.limits)
        try:
            assert await self._keys(store, contiguous=contiguous) >= self.records
        finally:
            await store.aclose()
        await self._load()

    async def _keys(self, store: FileStore, *, contiguous: bool) -> set[str]:
        """Return the keys of all records: each there once, in order."""
        entries = [entry async for entry in store.list(SESSION) if entry.kind != BLOB]
        keys = [entry.key or "" for entry in entries]
        assert len(keys) == len(set(keys)), "a record stands there twice"
        numbers = [entry.sequence or 0 for entry in entries]
        if contiguous:
            assert numbers == list(range(1, len(numbers) + 1))
        else:
            assert numbers == sorted(set(numbers))
        return set(keys)

    async def _read(self, store: FileStore, *, contiguous: bool) -> set[str]:
        """Read all that is there, whole, and return the keys of the records."""
        keys = await self._keys(store, contiguous=contiguous)
        assert keys >= self.records, f"lost: {sorted(self.records - keys)}"
        entries = [entry async for entry in store.list(SESSION)]
        async for entry, data in read_records(store, (entry for entry in entries if entry.kind != BLOB)):
            name, _, number = (entry.key or "").rpartition("-")
            assert lines.bare(data) == body_of(name, int(number)).encode(), f"{entry.key} is not what was stored"
        blobs = {entry.name: entry for entry in entries if entry.kind == BLOB}
        assert set(blobs) >= self.blobs, f"lost: {sorted(self.blobs - set(blobs))}"
        for known, entry in blobs.items():
            _, name, number = known.removesuffix(".txt").rsplit("-", 2)
            assert await store.get(entry.reference) == blob_of(name, int(number)), f"{known} is not what was stored"
        return keys

    async def _load(self) -> None:
        """Load the saved states: the last one that was told of, or the one that was being saved."""
        stores = session_stores(self.root) if self.states else {}
        try:
            for (letter, name), number in self.states.items():
                found = await stores[letter].load(name)
                assert found is not None, f"the state of {name} in {letter} is lost"
                assert found.state in (state_of(name, number), state_of(name, number + 1))
        finally:
            for store in stores.values():
                await store.aclose()


def segments_of(root: Path) -> Sequence[Path]:
    """Return the files of the log, in order."""
    folder = root / "sessions" / SESSION
    first, others = folder / "context.jsonl", sorted(folder.glob("context-*.jsonl"))
    return [first, *others] if first.exists() else []


def is_torn(root: Path) -> bool:
    """Return whether the log ends in the midst of a line."""
    files = segments_of(root)
    if not files or files[-1].stat().st_size == 0:
        return False
    with files[-1].open("rb") as log:
        log.seek(-1, 2)
        return log.read() != b"\n"
