"""Stores that each break one promise: the suite must find every one of them, or it shows nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from ctxkit.errors import RecordNotFoundError, SessionLockedError, StoreError, StoreWriteError
from ctxkit.offload import BLOB, FileStore, MemoryStore, Record

from .able import AbleStore


class LosesTheLastRecord(MemoryStore):
    async def append(self, session_id, records):
        return await super().append(session_id, records[:-1])


class StoresARepetition(MemoryStore):
    count = 0

    async def append(self, session_id, records):
        self.count += 1
        fresh = [Record(key=f"{self.count}:{one.key}"[:300], body=one.body, kind=one.kind) for one in records]
        return await super().append(session_id, fresh)


class KeepsOneBodyAnId(MemoryStore):
    async def append(self, session_id, records):
        by_id = [Record(key=one.key.partition(":")[0], body=one.body, kind=one.kind) for one in records]
        return await super().append(session_id, by_id)


class StoresACallInParts(MemoryStore):
    async def append(self, session_id, records):
        reference = self.reference(session_id)
        for one in records:
            await super().append(session_id, [one])
            await asyncio.sleep(0)
        return reference


class SwallowsErrors(MemoryStore):
    async def append(self, session_id, records):
        with contextlib.suppress(StoreError):
            return await super().append(session_id, records)
        return self.reference(session_id)


class RaisesWhatItLikes(MemoryStore):
    async def get(self, reference, offset=0, length=None):
        try:
            return await super().get(reference, offset, length)
        except RecordNotFoundError as exc:
            raise KeyError(reference) from exc


class SortsRecords(MemoryStore):
    async def append(self, session_id, records):
        return await super().append(session_id, sorted(records, key=lambda one: one.key, reverse=True))


class CountsFromZero(MemoryStore):
    async def list(self, session_id, *, after=0):
        async for entry in super().list(session_id, after=after):
            number = entry.sequence
            yield entry if number is None else _with(entry, sequence=number - 1)


class ListsFromAfterOn(MemoryStore):
    async def list(self, session_id, *, after=0):
        async for entry in super().list(session_id, after=max(0, after - 1)):
            yield entry


class FoldsCase(MemoryStore):
    def reference(self, session_id, name=None, data=b""):
        return super().reference(session_id and session_id.casefold(), name, data)

    async def append(self, session_id, records):
        return await super().append(session_id.casefold(), records)

    async def list(self, session_id, *, after=0):
        async for entry in super().list(session_id.casefold(), after=after):
            yield entry


class CutsLongIds(MemoryStore):
    async def append(self, session_id, records):
        return await super().append(session_id[:255], records)

    async def list(self, session_id, *, after=0):
        async for entry in super().list(session_id[:255], after=after):
            yield entry


class WritesOutside(MemoryStore):
    place: Any = None

    async def append(self, session_id, records):
        if session_id == "../up":
            await asyncio.to_thread((self.place / session_id).write_text, "up and away")
        return await super().append(session_id, records)


class OverwritesBlobs(MemoryStore):
    async def put(self, session_id, name, data):
        plain = self.reference(session_id, name)
        self._contents = {**getattr(self, "_contents", {}), plain: data}
        await super().put(session_id, name, data)
        return plain

    async def get(self, reference, offset=0, length=None):
        found = getattr(self, "_contents", {}).get(reference)
        return await super().get(reference, offset, length) if found is None else found


class LooksThenWrites(MemoryStore):
    async def append(self, session_id, records):
        there = {entry.key async for entry in self.list(session_id)}
        await asyncio.sleep(0)
        self.count = getattr(self, "count", 0) + 1
        new = [one for one in records if one.key not in there]
        return await super().append(
            session_id, [Record(key=f"{one.key}{' ' * self.count}", body=one.body, kind=one.kind) for one in new]
        )


class AnswersTheWrongTask(MemoryStore):
    last = ""

    async def append(self, session_id, records):
        self.last = await super().append(session_id, records)
        await asyncio.sleep(0)
        return self.last


class GoesOnWhenCancelled(MemoryStore):
    async def append(self, session_id, records):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return await super().append(session_id, records)


class LeavesAHalfWhenCancelled(MemoryStore):
    async def put(self, session_id, name, data):
        whole = False
        try:
            await asyncio.sleep(0)
            whole = True
        finally:
            if not whole:
                self._blobs[self.reference(session_id, name, data)] = data[:10]
        return await super().put(session_id, name, data)


class RepeatsWhenCancelled(MemoryStore):
    async def append(self, session_id, records):
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            late = [Record(key=f"{one.key}!", body=one.body, kind=one.kind) for one in records]
            await super().append(session_id, late)
            raise
        return await super().append(session_id, records)


class FailsOnSurrogates(MemoryStore):
    async def append(self, session_id, records):
        for one in records:
            one.body.encode()
        return await super().append(session_id, records)


class LosesSurrogates(MemoryStore):
    async def append(self, session_id, records):
        changed = [
            Record(key=one.key, body=one.body.encode("utf-8", "replace").decode(), kind=one.kind) for one in records
        ]
        return await super().append(session_id, changed)


class ForeseesWrongly(MemoryStore):
    def reference(self, session_id, name=None, data=b""):
        return f"{super().reference(session_id, name, data)}?"

    async def put(self, session_id, name, data):
        return (await super().put(session_id, name, data)).rstrip("?")


class CountsFromTheEnd(MemoryStore):
    async def get(self, reference, offset=0, length=None):
        data = await super().get(reference)
        return data[offset:] if length is None else data[offset : offset + length]


class ListsTheNewestBlobFirst(MemoryStore):
    async def list(self, session_id, *, after=0):
        entries = [entry async for entry in super().list(session_id, after=after)]
        for entry in sorted(entries, key=lambda one: (one.kind == BLOB, one.name or "")):
            yield entry


class TakesAnyName(MemoryStore):
    async def put(self, session_id, name, data):
        try:
            return await super().put(session_id, name, data)
        except StoreWriteError:
            return await super().put(session_id, "other.txt", data)


class Hangs(MemoryStore):
    async def append(self, session_id, records):
        await asyncio.Event().wait()


class KeepsKeysOfTheDeleted(AbleStore):
    async def delete(self, session_id):
        seen = self.shelf.store.__dict__.setdefault("_seen", set())
        seen |= {entry.key async for entry in self.list(session_id)}
        await super().delete(session_id)

    async def append(self, session_id, records):
        seen = self.shelf.store.__dict__.get("_seen", ())
        return await super().append(session_id, [one for one in records if one.key not in seen])


class DeletesByPrefix(AbleStore):
    async def delete(self, session_id):
        for other in ("a", "a/b", "a_b", "a b"):
            if other.startswith(session_id):
                await super().delete(other)
        await super().delete(session_id)


class StoresChunksAsTheyCome(AbleStore):
    async def put_chunks(self, session_id, name, chunks):
        data = b""
        try:
            async for chunk in chunks:
                data += chunk
        finally:
            reference = await self.put(session_id, name, data)
        return reference


class SearchesOldestFirst(AbleStore):
    async def search(self, session_id, text):
        for entry in reversed([entry async for entry in super().search(session_id, text)]):
            yield entry


class SearchesByPattern(AbleStore):
    async def search(self, session_id, text):
        async for entry in super().search(session_id, text.strip("%_.*[]")):
            yield entry


class FencesAppendOnly(AbleStore):
    async def put(self, session_id, name, data):
        return await self.shelf.store.put(session_id, name, data)

    async def fence(self, session_id, epoch):
        await super().fence(session_id, epoch)
        return FencesAppendOnly(self.place, owned={**self.owned, session_id: epoch})


class LowersFences(AbleStore):
    async def fence(self, session_id, epoch):
        self.shelf.fences.pop(session_id, None)
        return await super().fence(session_id, epoch)


class ForgetsFences(AbleStore):
    async def delete(self, session_id):
        self.shelf.fences.pop(session_id, None)
        await super().delete(session_id)


class FencesAllSessions(AbleStore):
    def check(self, session_id):
        for owned in self.owned:
            super().check(owned)

    async def fence(self, session_id, epoch):
        await super().fence(session_id, epoch)
        return FencesAllSessions(self.place, owned={**self.owned, session_id: epoch})


class HasTwoOwners(AbleStore):
    async def lease(self, session_id, *, owner, ttl_s, timeout_s=0.0):
        self.shelf.holders.pop(session_id, None)
        return await super().lease(session_id, owner=owner, ttl_s=ttl_s, timeout_s=timeout_s)


class HidesItsOwner(AbleStore):
    async def lease(self, session_id, *, owner, ttl_s, timeout_s=0.0):
        try:
            return await super().lease(session_id, owner=owner, ttl_s=ttl_s, timeout_s=timeout_s)
        except SessionLockedError as exc:
            msg = "locked"
            raise SessionLockedError(msg) from exc


class RepeatsEpochs(AbleStore):
    async def lease(self, session_id, *, owner, ttl_s, timeout_s=0.0):
        self.shelf.epochs.pop(session_id, None)
        return await super().lease(session_id, owner=owner, ttl_s=ttl_s, timeout_s=timeout_s)


class NeverExpires(AbleStore):
    async def lease(self, session_id, *, owner, ttl_s, timeout_s=0.0):
        held = await super().lease(session_id, owner=owner, ttl_s=ttl_s, timeout_s=timeout_s)
        return _Certain(held)


class _Certain:
    """A lease that never thinks itself lost."""

    is_lost = False

    def __init__(self, held):
        self.held = held
        self.epoch = held.epoch

    async def renew(self):
        self.held._ends = float("inf")

    async def release(self):
        await self.held.release()


class AnswersBeforeItWrites(FileStore):
    """What `kill -9` finds: the answer comes first, the write when there is time."""

    async def append(self, session_id, records):
        self.late = getattr(self, "late", [])
        self.late.append(asyncio.ensure_future(self._later(session_id, records)))
        await asyncio.sleep(0.001)
        return self.reference(session_id)

    async def _later(self, session_id, records):
        await asyncio.sleep(0.05)
        await super().append(session_id, records)


class RemembersItsList(FileStore):
    """It does not look again, and so does not see what others write."""

    async def list(self, session_id, *, after=0):
        cached = self.__dict__.setdefault("cached", {})
        if session_id not in cached:
            cached[session_id] = [entry async for entry in super().list(session_id)]
        for entry in cached[session_id]:
            yield entry

    async def append(self, session_id, records):
        self.__dict__.get("cached", {}).pop(session_id, None)
        return await super().append(session_id, records)


def _with(entry, **changes):
    values = {name: getattr(entry, name) for name in type(entry).__dataclass_fields__}
    return type(entry)(**{**values, **changes})
