"""Repair of contexts, saved states and session files."""

from ctxkit.sessions.repair.context import repair_context
from ctxkit.sessions.repair.file import repair_file, session_files
from ctxkit.sessions.repair.findings import FileReport
from ctxkit.sessions.repair.mend import MISSING_RESULT
from ctxkit.sessions.repair.references import dangling_references
from ctxkit.sessions.repair.report import Repair, Repaired, RepairedState
from ctxkit.sessions.repair.state import repair_state

__all__ = [
    "MISSING_RESULT",
    "FileReport",
    "Repair",
    "Repaired",
    "RepairedState",
    "dangling_references",
    "repair_context",
    "repair_file",
    "repair_state",
    "session_files",
]
