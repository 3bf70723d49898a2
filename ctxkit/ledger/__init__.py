"""Facts by code: files, commands, errors, tests, jobs, identifiers and constraints, collected beside the summary's prose."""

from ctxkit.ledger.adapters import Deed, ToolAdapter, register_tool_adapter, unregister_tool_adapter
from ctxkit.ledger.entries import Command, Failure, Job, Mention, Tested, Touch
from ctxkit.ledger.facts import Facts, facts_of, raw_texts, scan_block, scan_text
from ctxkit.ledger.failing import open_errors
from ctxkit.ledger.fit import Count, count_fitting
from ctxkit.ledger.fold import Ledger, Reader
from ctxkit.ledger.identifiers import identifiers_of
from ctxkit.ledger.lines import clipped
from ctxkit.ledger.markers import without_markers
from ctxkit.ledger.render import render_ledger
from ctxkit.ledger.tasks import TaskAdapter

__all__ = [
    "Command",
    "Count",
    "Deed",
    "Facts",
    "Failure",
    "Job",
    "Ledger",
    "Mention",
    "Reader",
    "Tested",
    "ToolAdapter",
    "Touch",
    "clipped",
    "count_fitting",
    "facts_of",
    "identifiers_of",
    "open_errors",
    "raw_texts",
    "register_tool_adapter",
    "render_ledger",
    "scan_block",
    "scan_text",
    "unregister_tool_adapter",
    "without_markers",
]

register_tool_adapter(TaskAdapter(), tools=("TaskCreate", "TaskUpdate"))
