"""The five fields of a summary, and the shapes that config and summary share."""

from collections.abc import Mapping
from typing import Any, Final

SUMMARY_FIELDS: Final[Mapping[str, str]] = {
    "task_overview": (
        "The user's core request and success criteria.\nAny clarifications or constraints they specified"
    ),
    "current_state": (
        "What has been completed so far.\n"
        "File created, modified, or analyzed (with paths if relevant).\n"
        "Key outputs or artifacts produced."
    ),
    "important_discoveries": (
        "Technical constraints or requirements uncovered.\n"
        "Decisions made and their rationale.\n"
        "Errors encountered and how they were resolved.\n"
        "What approaches were tried that didn't work (and why)"
    ),
    "next_steps": (
        "Specific actions needed to complete the task.\n"
        "Any blockers or open questions to resolve.\n"
        "Priority order if multiple steps remain"
    ),
    "context_to_preserve": (
        "User preferences or style requirements.\n"
        "Domain-specific details that aren't obvious.\n"
        "Any promises made to the user"
    ),
}
"""Field name to description, in the order in which a summary shows them (AgentScope's own five)."""


def summary_json_schema() -> dict[str, Any]:
    """Return the JSON schema of the five-field summary, a new dict at each call."""
    return {
        "title": "SummarySchema",
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in SUMMARY_FIELDS.items()},
        "required": list(SUMMARY_FIELDS),
    }
