"""A store that offers everything, so that each test of a capability is seen to pass on one that keeps its promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit.errors import SessionLockedError, StaleOwnerError
from ctxkit.offload import BLOB, Entry, MemoryStore, Record, Store

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Shelf:
    """What all clients of one place share."""

    store: MemoryStore = field(default_factory=MemoryStore)
    fences: dict[str, int] = field(default_factory=dict)
    holders: dict[str, HeldLease] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)


SHELVES: dict[Path, Shelf] = {}


class AbleStore:
    """A client of a shelf in this process."""

    def __init__(self, place: Path, *, owned: Mapping[str, int] | None = None) -> None:
        self.place = place
        self.shelf = SHELVES.setdefault(place, Shelf())
        self.owned = owned or {}

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        return self.shelf.store.reference(session_id, name, data)

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        self.check(session_id)
        return await self.shelf.store.append(session_id, records)

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        self.check(session_id)
        return await self.shelf.store.put(session_id, name, data)

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        return await self.shelf.store.get(reference, offset, length)

    async def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        async for entry in self.shelf.store.list(session_id, after=after):
            yield entry

    async def delete(self, session_id: str) -> None:
        await self.shelf.store.delete(session_id)

    async def put_chunks(self, session_id: str | None, name: str, chunks: AsyncIterable[bytes]) -> str:
        return await self.put(session_id, name, b"".join([chunk async for chunk in chunks]))

    async def search(self, session_id: str, text: str) -> AsyncIterator[Entry]:
        entries = [entry async for entry in self.list(session_id)]
        records = [entry for entry in entries if entry.kind != BLOB]
        for entry in [*reversed(records), *(entry for entry in entries if entry.kind == BLOB)]:
            if text.encode().lower() in (await self.get(entry.reference, entry.offset, entry.size)).lower():
                yield entry

    async def fence(self, session_id: str, epoch: int) -> Store:
        if self.shelf.fences.get(session_id, 0) > epoch:
            msg = f"Session {session_id!r} has been fenced at a higher epoch than {epoch}: it has another owner."
            raise StaleOwnerError(msg)
        self.shelf.fences[session_id] = epoch
        return AbleStore(self.place, owned={**self.owned, session_id: epoch})

    async def lease(
        self, session_id: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float = 0.0
    ) -> HeldLease:
        deadline = time.monotonic() + timeout_s
        while (holder := self.shelf.holders.get(session_id)) is not None and not holder.is_lost:
            if time.monotonic() >= deadline:
                msg = f"Session {session_id!r} is held by {dict(holder.owner)!r}: wait, or ask it to let go."
                raise SessionLockedError(msg, holder=holder.owner)
            await asyncio.sleep(0.01)
        epoch = self.shelf.epochs[session_id] = self.shelf.epochs.get(session_id, 0) + 1
        held = self.shelf.holders[session_id] = HeldLease(self.shelf, session_id, owner, epoch, ttl_s)
        return held

    def check(self, session_id: str | None) -> None:
        owned = self.owned.get(session_id or "")
        if owned is not None and owned < self.shelf.fences[session_id or ""]:
            msg = f"Session {session_id!r} has a new owner; epoch {owned} can no longer write."
            raise StaleOwnerError(msg)


class HeldLease:
    """A hold that ends when its time is over."""

    def __init__(self, shelf: Shelf, session_id: str, owner: Mapping[str, str | int], epoch: int, ttl_s: float) -> None:
        self.owner = owner
        self.epoch = epoch
        self._shelf = shelf
        self._session_id = session_id
        self._ttl_s = ttl_s
        self._ends = time.monotonic() + ttl_s

    @property
    def is_lost(self) -> bool:
        return self._shelf.holders.get(self._session_id) is not self or time.monotonic() > self._ends

    async def renew(self) -> None:
        if self.is_lost:
            msg = f"Session {self._session_id!r} is no longer held."
            raise SessionLockedError(msg)
        self._ends = time.monotonic() + self._ttl_s

    async def release(self) -> None:
        if self._shelf.holders.get(self._session_id) is self:
            del self._shelf.holders[self._session_id]
