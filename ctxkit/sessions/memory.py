"""The session store in memory: for tests, and for agents whose sessions need not outlive the process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctxkit.offload.files.epochs import refuse_stale
from ctxkit.sessions.encoding import decode_state, encode_state, no_json_error
from ctxkit.sessions.rows import next_row
from ctxkit.sessions.store import SavedSession, SessionEntry
from ctxkit.sessions.trash import TrashedSession


@dataclass(frozen=True)
class _Saved:
    state: bytes
    row: SessionEntry


class MemorySessionStore:
    """Keeps everything in this object, with the semantics of `SessionStore` but for durability.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sessions: dict[str, _Saved] = {}
        self._trash: dict[str, list[tuple[float, _Saved]]] = {}
        self._epochs: dict[str, int] = {}

    async def save(
        self, session_id: str, state: Mapping[str, Any], *, entry: SessionEntry | None = None, epoch: int | None = None
    ) -> None:
        """Save the state of a session; see `SessionStore.save`.

        Raises:
            StaleOwnerError: A higher epoch has saved or fenced the session.
            StoreWriteError: The state is no plain JSON.
        """
        try:
            data = await asyncio.to_thread(encode_state, state)
        except ValueError as exc:
            raise no_json_error(session_id, exc) from exc
        self._raise_epoch(session_id, epoch)
        before = self._sessions.get(session_id)
        row = next_row(session_id, entry, before.row if before else None, now=self._clock(), size=len(data))
        self._sessions[session_id] = _Saved(data, row)

    async def load(self, session_id: str) -> SavedSession | None:
        """Return a saved session, or None where there is none."""
        found = self._sessions.get(session_id)
        if found is None:
            return None
        return SavedSession(state=await asyncio.to_thread(decode_state, found.state), entry=found.row)

    async def list(self) -> AsyncIterator[SessionEntry]:
        """Yield all sessions, the last saved first."""
        for saved in sorted(self._sessions.values(), key=lambda saved: saved.row.updated_at, reverse=True):
            yield saved.row

    async def delete(self, session_id: str) -> None:
        """Remove a session; its epochs stay, so that an owner that lost it cannot bring it back."""
        self._sessions.pop(session_id, None)

    async def fence(self, session_id: str, epoch: int) -> None:
        """Refuse every later `save` of a session with a lower epoch.

        Raises:
            StaleOwnerError: A higher epoch has been used already.
        """
        self._raise_epoch(session_id, epoch)

    def lock_path(self, session_id: str) -> None:  # noqa: ARG002 - the contract's signature
        """Return None: nobody outside this process shares it."""
        return

    async def peek(self, session_id: str) -> SessionEntry | None:
        """Return the row of a session."""
        found = self._sessions.get(session_id)
        return found.row if found is not None else None

    async def epoch(self, session_id: str) -> int:
        """Return the highest epoch that was used on a session, 0 where none was."""
        return self._epochs.get(session_id, 0)

    async def trash(self, session_id: str, *, saved_at: float | None = None) -> bool:
        """Move a session to the trash, unless it was saved since."""
        found = self._sessions.get(session_id)
        if found is None or saved_at not in {None, found.row.updated_at}:
            return False
        trash = self._trash.setdefault(session_id, [])
        at = max([self._clock(), *(earlier + 0.001 for earlier, _ in trash[-1:])])
        trash.append((at, self._sessions.pop(session_id)))
        return True

    async def untrash(self, session_id: str) -> bool:
        """Bring a session back as it was trashed last."""
        if session_id in self._sessions or not self._trash.get(session_id):
            return False
        _, self._sessions[session_id] = self._trash[session_id].pop()
        return True

    async def trashed(self) -> AsyncIterator[TrashedSession]:
        """Yield what is in the trash, the oldest first."""
        found = [
            TrashedSession(session_id=session_id, trashed_at=at)
            for session_id, saved in self._trash.items()
            for at, _ in saved
        ]
        for one in sorted(found, key=lambda one: one.trashed_at):
            yield one

    async def purge(self, session_id: str, *, trashed_before: float) -> None:
        """Remove for good what was trashed of a session before a time."""
        kept = [(at, saved) for at, saved in self._trash.pop(session_id, []) if at >= trashed_before]
        if kept:
            self._trash[session_id] = kept

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def _raise_epoch(self, session_id: str, epoch: int | None) -> None:
        if epoch is not None:
            refuse_stale(session_id, epoch, self._epochs.get(session_id, 0))
            self._epochs[session_id] = epoch
