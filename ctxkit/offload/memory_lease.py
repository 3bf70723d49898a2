"""Leases in memory: one owner of a session at a time among the tasks of one event loop, until released or run out."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final

from ctxkit.errors import SessionLockedError

_PAUSE_S: Final = 0.01
"""How late a freed session is noticed at most."""


class MemoryLease:
    """One owner's hold on a session; conforms to `ctxkit.offload.capabilities.Lease`.

    Args:
        leases: Where it is held.
        session: The session.
        owner: Who holds it.
        ttl_s: Seconds after which it ends unless it is renewed.
        epoch: The owner's number.
    """

    def __init__(
        self, leases: "MemoryLeases", session: str, *, owner: Mapping[str, str | int], ttl_s: float, epoch: int
    ) -> None:
        self.owner = dict(owner)
        self._leases = leases
        self._session = session
        self._ttl_s = ttl_s
        self._epoch = epoch
        self._ends = leases.clock() + ttl_s

    @property
    def epoch(self) -> int:
        """The owner's number, higher than that of all owners before it."""
        return self._epoch

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may hold the session by now."""
        return self._leases.held.get(self._session) is not self or self._leases.clock() >= self._ends

    async def renew(self) -> None:
        """Start the time to live anew.

        Raises:
            SessionLockedError: It was released, or somebody else has taken the session since it ran out.
        """
        if self._leases.held.get(self._session) is not self:
            raise self._leases.refusal(self._session)
        self._ends = self._leases.clock() + self._ttl_s

    async def release(self) -> None:
        """Let go of the session; a second time, or of one that is lost, does nothing."""
        if self._leases.held.get(self._session) is self:
            del self._leases.held[self._session]


class MemoryLeases:
    """Who holds which session.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.held: dict[str, MemoryLease] = {}
        self._last: dict[str, int] = {}

    async def take(
        self, session: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float, above: Callable[[], int]
    ) -> MemoryLease:
        """Take a session.

        Args:
            session: The session.
            owner: Who asks.
            ttl_s: Seconds after which the hold ends unless it is renewed.
            timeout_s: Seconds to wait for another owner.
            above: Returns a number that the epoch is to be above.

        Raises:
            SessionLockedError: Another owner held it all the time; the message names it.
        """
        deadline = self.clock() + timeout_s
        while (holder := self.held.get(session)) is not None and not holder.is_lost:
            if self.clock() >= deadline:
                raise self.refusal(session)
            await asyncio.sleep(_PAUSE_S)
        epoch = self._last[session] = max(self._last.get(session, 0), above()) + 1
        lease = self.held[session] = MemoryLease(self, session, owner=owner, ttl_s=ttl_s, epoch=epoch)
        return lease

    def refusal(self, session: str) -> SessionLockedError:
        """Return the error that says who holds a session."""
        holder = self.held.get(session)
        if holder is None:
            return SessionLockedError(f"Session {session!r} was released: take it again.")
        msg = f"Session {session!r} is held by {json.dumps(holder.owner)}: try again when it has ended."
        return SessionLockedError(msg, holder=holder.owner)
