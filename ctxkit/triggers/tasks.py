"""What an agent says of its tasks: a finished one is a good moment for a compression."""

from __future__ import annotations

import json
from typing import Final, Literal

TASK_TOOLS: Final = frozenset({"TaskUpdate"})
"""Tools by which an agent changes the state of a task; AgentScope's own."""
_MOST_CHARS: Final = 32_000
"""Longer arguments are not read: they are no change of a task's state."""


def task_change(tool: str, arguments: str) -> Literal["open", "done"] | None:
    """Return what a call says of a task: it has been taken up, or is done with; `None` where it says nothing of that.

    Args:
        tool: The tool's name.
        arguments: The call's arguments, JSON.
    """
    if tool not in TASK_TOOLS or len(arguments) > _MOST_CHARS:
        return None
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    status = given.get("status") if isinstance(given, dict) else None
    if status == "in_progress":
        return "open"
    return "done" if status in ("completed", "deleted") else None
