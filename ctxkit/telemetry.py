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

REDACTED: Final = "ctxkit.content.redacted"
"""Secrets were replaced before something was stored or summarised: `counts`, by the rule's name."""

PLAN_RESUMED: Final = "ctxkit.plan.resumed"
"""A plan that was stored but not applied, because of a crash or a change meanwhile, was taken up again: `plan_id`."""

SESSION_RESTORED: Final = "ctxkit.session.restored"
"""An agent was given a saved session: `messages`, `rule` (`whole` or `texts`), `updated_at`, `repairs`."""

SESSION_SAVE_FAILED: Final = "ctxkit.session.save_failed"
"""A session could not be saved; the one saved before stays: `problem`."""

SESSION_LOST: Final = "ctxkit.session.lost"
"""Another owner has taken the session over, and nothing more of this one is written: `problem`."""

REPAIRED: Final = "ctxkit.session.repaired"
"""A context was repaired before it was used: `repairs`, one line each."""

MAINTENANCE: Final = "ctxkit.session.maintenance"
"""Old sessions were removed, or would be: `mode`, `removed`, `delayed`, each by session with its reason."""

OVERFLOW: Final = "ctxkit.request.overflow"
"""A request did not fit, and a smaller view of it was sent: `limit_tokens`, `needed_tokens`, `attempt` (refusals of the
provider so far; 0 where it was foreseen), `tokens_after`, `left_out_messages`, `left_out_tokens`, `shortened_blocks`, and
`problem`: why what was to leave the context could not be stored, where that is why."""

PREPARED: Final = "ctxkit.summary.prepared"
"""A summary has been made in the background: `plan_id`, `messages`, `seconds`, `summary`."""

PREPARED_REJECTED: Final = "ctxkit.summary.rejected"
"""A summary that was made in the background cannot be used: `plan_id`, `problem`."""

VERIFIED: Final = "ctxkit.summary.verified"
"""A summary was checked before it was used: `plan_id`, `claims` (how many names and numbers), `added` (facts put in by code),
`unverified`, `corrected`, `reported` (instructions that a tool said first), `refused` (how many summaries before it)."""

BREAKER: Final = "ctxkit.compression.paused"
"""After failures in a row no automatic summary is tried for a while: `failures`, `until_tokens`, `problem`."""

OVERHEAD: Final = "ctxkit.window.overhead"
"""System prompt and tool schemas alone are above the trigger: `fixed_tokens`, `trigger_tokens`, `parts`."""

SMALL_WINDOW: Final = "ctxkit.window.small"
"""The model's window is smaller than is advised: `context_size`, `warn_below_tokens`."""

CACHE_BROKEN: Final = "ctxkit.cache.broken"
"""A request's beginning is not that of the request before, though nothing was compressed: `component`, `stable_tokens`."""

MEMORY_WRITTEN: Final = "ctxkit.memory.written"
"""What left the context was written to memory: `plan_id`, `path`, `is_extractive`, `input_tokens`, `output_tokens`. Told at
the next reasoning step."""

MEMORY_FAILED: Final = "ctxkit.memory.failed"
"""What left the context could not be written to memory yet: `plan_id` (None where no compression took it), `problem`. Told
at the next reasoning step."""

HOOK_FAILED: Final = "ctxkit.hook.failed"
"""A user's hook raised: `hook`, `problem`."""

RULE_FIRED: Final = "ctxkit.rule.fired"
"""A rule has done what it says: `rule`, `on`, `action`, `turn`, `tokens`, `messages`."""

RULE_FAILED: Final = "ctxkit.rule.failed"
"""A rule could not be looked at or carried out; the reply goes on: `rule`, `on`, `action`, `problem`."""

UNDONE: Final = "ctxkit.compression.undone"
"""A compression was taken back: `plan_id`, `tokens_before`, `tokens_after`."""

STAGES: Final = ("plan", "store", "summary", "swap")
"""The stages of a compression, in order."""
