"""The summary: made by a model or by code, checked, kept small, and shown with the facts beside the prose."""

from ctxkit.summary.answer import check_fields, parse_answer
from ctxkit.summary.extractive import MARK, Excerpt, extract_fields
from ctxkit.summary.generate import Material, Summarizer
from ctxkit.summary.render import render, shortened
from ctxkit.summary.state import Stub, SummaryState, UserRequest, requests_of

__all__ = [
    "MARK",
    "Excerpt",
    "Material",
    "Stub",
    "Summarizer",
    "SummaryState",
    "UserRequest",
    "check_fields",
    "extract_fields",
    "parse_answer",
    "render",
    "requests_of",
    "shortened",
]
