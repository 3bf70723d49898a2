"""A store as the owner of one session uses it: refused as soon as there is a later owner."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Protocol

from ctxkit.offload.capabilities import Deletes, Fences, Lease, Leases, Searches, Streams
from ctxkit.offload.names import fsname
from ctxkit.offload.store import Entry, Record, Store


class ChecksEpochs(Store, Deletes, Streams, Searches, Fences, Leases, Protocol):
    """A store with all capabilities, whose writes take the number of their owner."""

    async def append(self, session_id: str, records: Sequence[Record], *, epoch: int | None = None) -> str:
        """Store records, unless a higher epoch has been fenced."""
        ...

    async def put(self, session_id: str | None, name: str, data: bytes, *, epoch: int | None = None) -> str:
        """Store a blob, unless a higher epoch has been fenced."""
        ...

    async def put_chunks(
        self, session_id: str | None, name: str, chunks: AsyncIterable[bytes], *, epoch: int | None = None
    ) -> str:
        """Store a blob that comes in chunks, unless a higher epoch has been fenced."""
        ...

    async def delete(self, session_id: str, *, epoch: int | None = None) -> None:
        """Remove a session, unless a higher epoch has been fenced."""
        ...


class FencedStore:
    """A store whose writes in one session are those of one owner; all else is the store's own.

    Args:
        store: The store.
        session_id: The session.
        epoch: The owner's number.
    """

    def __init__(self, store: ChecksEpochs, session_id: str, epoch: int) -> None:
        self.store = store
        self.epoch = epoch
        self._name = fsname(session_id)

    def _epoch(self, session_id: str | None) -> int | None:
        return self.epoch if session_id is not None and fsname(session_id) == self._name else None

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return."""
        return self.store.reference(session_id, name, data)

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        """Store records; see `Store.append`.

        Raises:
            StaleOwnerError: The session has a later owner.
            StoreWriteError: The records could not be stored.
        """
        return await self.store.append(session_id, records, epoch=self._epoch(session_id))

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        """Store a blob; see `Store.put`.

        Raises:
            StaleOwnerError: The session has a later owner.
            StoreWriteError: The blob could not be stored.
        """
        return await self.store.put(session_id, name, data, epoch=self._epoch(session_id))

    async def put_chunks(self, session_id: str | None, name: str, chunks: AsyncIterable[bytes]) -> str:
        """Store a blob that comes in chunks; see `Streams.put_chunks`.

        Raises:
            StaleOwnerError: The session has a later owner.
            StoreWriteError: The blob could not be stored.
        """
        return await self.store.put_chunks(session_id, name, chunks, epoch=self._epoch(session_id))

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of a blob or a log; see `Store.get`."""
        return await self.store.get(reference, offset, length)

    def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield a session's records and blobs; see `Store.list`."""
        return self.store.list(session_id, after=after)

    def search(self, session_id: str, text: str) -> AsyncIterator[Entry]:
        """Yield what has a text; see `Searches.search`."""
        return self.store.search(session_id, text)

    async def delete(self, session_id: str) -> None:
        """Remove a session; see `Deletes.delete`.

        Raises:
            StaleOwnerError: The session has a later owner.
        """
        await self.store.delete(session_id, epoch=self._epoch(session_id))

    async def fence(self, session_id: str, epoch: int) -> Store:
        """Raise a session's fence; see `Fences.fence`."""
        return await self.store.fence(session_id, epoch)

    async def lease(
        self, session_id: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float = 0.0
    ) -> Lease:
        """Take a session; see `Leases.lease`."""
        return await self.store.lease(session_id, owner=owner, ttl_s=ttl_s, timeout_s=timeout_s)
