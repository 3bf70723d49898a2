"""What ctxkit tells while it works: the names of its events and the shape of their values.

Every value is plain JSON and has `session_id` and `agent`. The host's room wraps them into events that AgentScope's
stream, its service and its consoles accept.
"""

from typing import Final

STARTED: Final = "ctxkit.compression.started"
"""A compression begins: `plan_id`, `reason`, `tokens_before`, `limit_tokens`, `context_size`."""

PROGRESS: Final = "ctxkit.compression.progress"
"""A compression has reached a stage: `plan_id`, `stage` (one of `STAGES`), and what the stage knows."""

DONE: Final = "ctxkit.compression.done"
"""A compression ended well: the receipt's fields."""

FAILED: Final = "ctxkit.compression.failed"
"""A compression was given up, the context is as it was: the receipt's fields, `problems` says why."""

SHORTENED: Final = "ctxkit.content.shortened"
"""Something oversized was shortened on its way in: `tool` or `role`, `tokens_before`, `tokens_after`, `reference`. Told at the next reasoning step, for a tool's stream takes no events."""

STORE_FAILED: Final = "ctxkit.store.failed"
"""Something could not be stored: `what`, `problem`."""

OVERFLOW: Final = "ctxkit.request.overflow"
"""A request did not fit, and a smaller view of it was sent: `limit_tokens`, `needed_tokens`, `attempt` (refusals of the
provider so far; 0 where it was foreseen), `tokens_after`."""

STAGES: Final = ("plan", "store", "summary", "swap")
"""The stages of a compression, in order."""
