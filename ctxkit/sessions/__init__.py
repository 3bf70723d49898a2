"""Sessions: what saves, locks, repairs, restores and retires them."""

from ctxkit.sessions.keys import SessionKey, history_limit
from ctxkit.sessions.lanes import GLOBAL, PROCESS_LANES, Lanes, session_lane, summary_lane
from ctxkit.sessions.lock import COMPRESSION_GRACE_S, Hold, SessionLocks
from ctxkit.sessions.maintenance import MaintenanceReport, RotatesIndex, maintain
from ctxkit.sessions.memory import MemorySessionStore
from ctxkit.sessions.repair import (
    FileReport,
    Repair,
    Repaired,
    RepairedState,
    repair_context,
    repair_file,
    repair_state,
)
from ctxkit.sessions.restore import KeptTurns, newest_turns
from ctxkit.sessions.retention import Delay, MaintenancePlan, Removal, Retention, plan_retention
from ctxkit.sessions.sqlite.store import SqliteSessionStore
from ctxkit.sessions.store import SavedSession, SessionEntry, SessionStore
from ctxkit.sessions.transcript.store import TranscriptSessionStore
from ctxkit.sessions.trash import Peeks, TrashedSession, Trashes

__all__ = [
    "COMPRESSION_GRACE_S",
    "GLOBAL",
    "PROCESS_LANES",
    "Delay",
    "FileReport",
    "Hold",
    "KeptTurns",
    "Lanes",
    "MaintenancePlan",
    "MaintenanceReport",
    "MemorySessionStore",
    "Peeks",
    "Removal",
    "Repair",
    "Repaired",
    "RepairedState",
    "Retention",
    "RotatesIndex",
    "SavedSession",
    "SessionEntry",
    "SessionKey",
    "SessionLocks",
    "SessionStore",
    "SqliteSessionStore",
    "TranscriptSessionStore",
    "TrashedSession",
    "Trashes",
    "history_limit",
    "maintain",
    "newest_turns",
    "plan_retention",
    "repair_context",
    "repair_file",
    "repair_state",
    "session_lane",
    "summary_lane",
]
