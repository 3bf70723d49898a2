"""What a session store may offer beside its contract: a trash, and a look at one row."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ctxkit.sessions.store import SessionEntry


@dataclass(frozen=True, kw_only=True)
class TrashedSession:
    """A session in the trash."""

    session_id: str
    trashed_at: float
    """Seconds since the epoch."""


@runtime_checkable
class Trashes(Protocol):
    """Puts a session aside before it is removed for good."""

    async def trash(self, session_id: str, *, saved_at: float | None = None) -> bool:
        """Move a session to the trash: it is neither loaded nor listed any more; its epochs stay.

        Args:
            session_id: The session.
            saved_at: Its `updated_at` when that was decided: where it was saved since, it stays. `None` always moves it.

        Returns:
            Whether it was moved; False where there is none, or it was saved since.

        Raises:
            StoreWriteError: It could not be moved.
        """
        ...

    async def untrash(self, session_id: str) -> bool:
        """Bring a session back as it was trashed last.

        Returns:
            False where it is not in the trash, or a session of that id is there again.

        Raises:
            StoreWriteError: It could not be brought back.
        """
        ...

    def trashed(self) -> AsyncIterator[TrashedSession]:
        """Yield what is in the trash, the oldest first; a session that was trashed twice stands there twice.

        Raises:
            StoreReadError: It cannot be read.
        """
        ...

    async def purge(self, session_id: str, *, trashed_before: float) -> None:
        """Remove for good what was trashed of a session before a time.

        Raises:
            StoreWriteError: Some of it could not be removed.
        """
        ...


@runtime_checkable
class Peeks(Protocol):
    """Tells of one session without loading its state."""

    async def peek(self, session_id: str) -> SessionEntry | None:
        """Return the row of a session; `updated_at` differs after each save.

        Raises:
            StoreReadError: It cannot be read.
        """
        ...

    async def epoch(self, session_id: str) -> int:
        """Return the highest epoch that was used on a session, 0 where none was.

        An owner whose lock has lost count, since its files are gone, takes one above it.

        Raises:
            StoreReadError: It cannot be read.
        """
        ...
