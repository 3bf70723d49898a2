"""The host's own task tools: what stands on the list, and how far it is."""

import re
from collections.abc import Mapping
from typing import Any, Final

from ctxkit.ledger.adapters import Deed, JobState

_CREATED: Final = re.compile(r"Task \(id=([^)\s]{1,64})\) created")
_STATES: Final[Mapping[str, JobState]] = {
    "pending": "waiting",
    "in_progress": "running",
    "completed": "over",
    "deleted": "over",
}


class TaskAdapter:
    """Says what calls of `TaskCreate` and `TaskUpdate` did."""

    def deed_of(self, name: str, arguments: Mapping[str, Any], result: str, state: str) -> Deed | None:
        """Return the task and its state; `None` where the call failed or changed neither."""
        if state in {"error", "denied", "interrupted"}:
            return None
        if name == "TaskCreate":
            created = _CREATED.search(result)
            return None if created is None else Deed(jobs={f"task {created[1]}": "waiting"})
        moved = _STATES.get(str(arguments.get("status")))
        return None if moved is None else Deed(jobs={f"task {arguments.get('task_id')}": moved})
