"""Repair of contexts, saved states and session files."""

from ctxkit.sessions.repair.context import repair_context
from ctxkit.sessions.repair.mend import MISSING_RESULT
from ctxkit.sessions.repair.report import Repair, Repaired, RepairedState

__all__ = [
    "MISSING_RESULT",
    "Repair",
    "Repaired",
    "RepairedState",
    "repair_context",
]
