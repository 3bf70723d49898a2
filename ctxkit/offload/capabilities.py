"""What a store may offer beside its four methods: each capability is one Protocol, found by its method.

ctxkit uses a capability where it is there and does without it where it is not; `ctxkit.testing.StoreSuite` tests each
one that it finds.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Protocol, runtime_checkable

from ctxkit.offload.store import Entry, Store


@runtime_checkable
class Deletes(Protocol):
    """Removes sessions."""

    async def delete(self, session_id: str) -> None:
        """Remove all that a session owns; blobs that sessions share stay, and an unknown session is no error.

        Raises:
            StoreWriteError: Some of it could not be removed.
        """
        ...


@runtime_checkable
class Streams(Protocol):
    """Takes a blob in chunks, so that it need not be in memory as a whole."""

    async def put_chunks(self, session_id: str | None, name: str, chunks: AsyncIterable[bytes]) -> str:
        """Store the chunks one after another as one blob, whole or not at all, and return its reference.

        The same rules as for `Store.put`; memory is bounded by the largest chunk.

        Raises:
            StoreWriteError: The blob could not be stored, or the name is not allowed.
        """
        ...


@runtime_checkable
class Searches(Protocol):
    """Finds text in what a session has stored, without an index of ctxkit's own."""

    def search(self, session_id: str, text: str) -> AsyncIterator[Entry]:
        """Yield the records, newest first, then the blobs whose content has a text (case of ASCII letters apart).

        Raises:
            StoreReadError: The session cannot be read.
        """
        ...


@runtime_checkable
class Fences(Protocol):
    """Refuses writers that have lost a session to another one."""

    async def fence(self, session_id: str, epoch: int) -> Store:
        """Raise a session's fence to an epoch, durably, and return this store as the owner of that epoch uses it.

        What the returned store appends or puts in the session is refused as soon as a higher epoch has been fenced,
        checked in the same step that writes, also after the session was deleted; writes of the store itself are never
        refused. Its other sessions, and all reads, are as in this store.

        Args:
            session_id: The session.
            epoch: The owner's number, at least 1; each owner of a session has a higher one than all before it.

        Raises:
            StaleOwnerError: A higher epoch has been fenced already.
            StoreWriteError: The fence could not be stored.
        """
        ...


class Lease(Protocol):
    """One owner's hold on a session, from `Leases.lease` until it is released, lost or expired."""

    @property
    def epoch(self) -> int:
        """The owner's number, higher than that of all owners before it."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may hold the session by now."""
        ...

    async def renew(self) -> None:
        """Start the time to live anew.

        Raises:
            SessionLockedError: Another owner holds the session.
        """
        ...

    async def release(self) -> None:
        """Let go of the session; a second time, or of one that is lost, does nothing."""
        ...


@runtime_checkable
class Leases(Protocol):
    """Gives a session to one owner at a time."""

    async def lease(
        self, session_id: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float = 0.0
    ) -> Lease:
        """Take a session.

        Args:
            session_id: The session.
            owner: Who asks, small plain JSON that errors show to others.
            ttl_s: Seconds after which the hold ends unless it is renewed, by the store's own clock. A store that learns
                of its owner's death in another way may hold on for longer.
            timeout_s: Seconds to wait for another owner.

        Raises:
            SessionLockedError: Another owner held it all the time; the message names it.
            StoreWriteError: The lease could not be stored.
        """
        ...
