"""How much a store on files may hold, and how much it does."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from ctxkit.errors import ConfigError, StoreFullError

_RECOUNT_S: Final = 5.0
"""Before it refuses, a store counts again what is there, for others may have deleted; no more often than this."""
_SESSIONS: Final = 4096
"""So many sessions' sizes are kept in memory."""


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """Sizes that a `FileStore` keeps to, in bytes; `None` is no limit.

    What other processes store in the same directory is counted when the store is opened and before it refuses, not at
    each write: together they may pass a limit by what they write meanwhile.
    """

    record_bytes: int | None = 1 << 20
    """A record with a bigger body stands in a file of its own, which its line in the log names."""
    segment_bytes: int | None = 64 << 20
    """A log that has grown to this size goes on in a new file."""
    session_bytes: int | None = 4 << 30
    """All files of one session; over it, nothing more is stored in it."""
    workspace_bytes: int | None = 64 << 30
    """All files of all sessions and what they share; over it, nothing more is stored."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                msg = (
                    f"FileLimits.{field.name} is {value!r}: give a number of bytes of at least 1, or None for no limit."
                )
                raise ConfigError(msg)


class Usage:
    """Counts the bytes of a store; safe to use from any thread.

    Args:
        limits: What may not be passed.
        count: Returns the bytes of a session's directory, or of the whole store for `None`.
    """

    def __init__(self, limits: FileLimits, count: Callable[[str | None], int]) -> None:
        self._limits = limits
        self._count = count
        self._guard = threading.Lock()
        self._used: dict[str | None, int] = {}
        self._counted: dict[str | None, float] = {}

    def reserve(self, session: str | None, size: int) -> None:
        """Count bytes that are about to be stored.

        Args:
            session: The name of the session's directory; `None` for what sessions share.
            size: Bytes; what was not stored after all is given back as a negative number.

        Raises:
            StoreFullError: They would pass a limit; they are not counted.
        """
        limits: list[tuple[str | None, int | None, str]] = [(None, self._limits.workspace_bytes, "workspace_bytes")]
        if session is not None:
            limits.append((session, self._limits.session_bytes, "session_bytes"))
        with self._guard:
            for owner, limit, name in limits:
                if limit is not None and size > 0 and self._of(owner, limit - size) + size > limit:
                    whose = "all sessions" if owner is None else f"session {owner!r}"
                    msg = (
                        f"{size:,} bytes more would take {whose} over FileLimits.{name}={limit:,}: "
                        f"delete old sessions, or give the store a higher limit."
                    )
                    raise StoreFullError(msg)
            for owner, *_ in limits:
                if owner in self._used:
                    self._used[owner] += size

    def forget(self, session: str) -> None:
        """Count anew, for a session was deleted."""
        with self._guard:
            for owner in (None, session):
                self._used.pop(owner, None)
                self._counted.pop(owner, None)

    def _of(self, owner: str | None, enough: int) -> int:
        if owner not in self._used or (
            self._used[owner] > enough and time.monotonic() - self._counted[owner] > _RECOUNT_S
        ):
            if len(self._used) > _SESSIONS:
                self._used = {key: used for key, used in self._used.items() if key is None}
                self._counted = {key: at for key, at in self._counted.items() if key is None}
            self._used[owner], self._counted[owner] = self._count(owner), time.monotonic()
        return self._used[owner]
