"""When an automatic compression is due: pure functions of what is known at one moment."""

from ctxkit.triggers.decide import HYSTERESIS_RATIO, Boundary, Decision, Moment, decide
from ctxkit.triggers.edits import PastEdits
from ctxkit.triggers.growth import Growth
from ctxkit.triggers.habits import Habits
from ctxkit.triggers.headroom import edit_cost, headroom
from ctxkit.triggers.rest import Rest
from ctxkit.triggers.safe import safe_limit
from ctxkit.triggers.tasks import task_change

__all__ = [
    "HYSTERESIS_RATIO",
    "Boundary",
    "Decision",
    "Growth",
    "Habits",
    "Moment",
    "PastEdits",
    "Rest",
    "decide",
    "edit_cost",
    "headroom",
    "safe_limit",
    "task_change",
]
