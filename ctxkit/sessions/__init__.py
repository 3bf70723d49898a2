"""Sessions: what saves, locks, repairs, restores and retires them."""

from ctxkit.sessions.memory import MemorySessionStore
from ctxkit.sessions.store import SavedSession, SessionEntry, SessionStore
from ctxkit.sessions.trash import Peeks, TrashedSession, Trashes

__all__ = [
    "MemorySessionStore",
    "Peeks",
    "SavedSession",
    "SessionEntry",
    "SessionStore",
    "TrashedSession",
    "Trashes",
]
