"""Admission of tool results, pastes and tool-call arguments: cut by kind, marker added, forged markers harmless."""

from ctxkit.results._base import Kind, Ruler, Shortened, Shortener
from ctxkit.results.admission import Limits, shorten_text
from ctxkit.results.arguments import shorten_arguments
from ctxkit.results.kinds import detect
from ctxkit.results.marker import TRUNCATED, defuse, defuse_in_pieces, marker
from ctxkit.results.pieces import defuse_pieces, shorten_pieces
from ctxkit.results.shrink import shrink

__all__ = [
    "TRUNCATED",
    "Kind",
    "Limits",
    "Ruler",
    "Shortened",
    "Shortener",
    "defuse",
    "defuse_in_pieces",
    "defuse_pieces",
    "detect",
    "marker",
    "shorten_arguments",
    "shorten_pieces",
    "shorten_text",
    "shrink",
]
