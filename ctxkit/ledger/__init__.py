"""Facts by code: files, commands, errors, identifiers and constraints, collected beside the prose of the summary."""

from ctxkit.ledger.facts import Facts, facts_of, raw_texts, scan_block, scan_text
from ctxkit.ledger.fit import Count, count_fitting
from ctxkit.ledger.fold import Command, Ledger, Mention
from ctxkit.ledger.identifiers import identifiers_of
from ctxkit.ledger.lines import clipped
from ctxkit.ledger.markers import without_markers
from ctxkit.ledger.render import render_ledger

__all__ = [
    "Command",
    "Count",
    "Facts",
    "Ledger",
    "Mention",
    "clipped",
    "count_fitting",
    "facts_of",
    "identifiers_of",
    "raw_texts",
    "render_ledger",
    "scan_block",
    "scan_text",
    "without_markers",
]
