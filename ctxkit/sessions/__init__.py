"""Sessions: what saves, locks, repairs, restores and retires them."""

from ctxkit.sessions.lanes import GLOBAL, PROCESS_LANES, Lanes, session_lane
from ctxkit.sessions.lock import COMPRESSION_GRACE_S, Hold, SessionLocks
from ctxkit.sessions.memory import MemorySessionStore
from ctxkit.sessions.store import SavedSession, SessionEntry, SessionStore
from ctxkit.sessions.trash import Peeks, TrashedSession, Trashes

__all__ = [
    "COMPRESSION_GRACE_S",
    "GLOBAL",
    "PROCESS_LANES",
    "Hold",
    "Lanes",
    "MemorySessionStore",
    "Peeks",
    "SavedSession",
    "SessionEntry",
    "SessionLocks",
    "SessionStore",
    "TrashedSession",
    "Trashes",
    "session_lane",
]
