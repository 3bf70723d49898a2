"""Redaction: secrets are replaced before anything reaches a disk or a summary's prompt."""

from ctxkit.offload.redact.default import DEFAULT_REDACTOR, redactor_of
from ctxkit.offload.redact.messages import redact_messages, redact_result
from ctxkit.offload.redact.rules import RULES, Rule
from ctxkit.offload.redact.secrets import SecretRedactor, Span
from ctxkit.offload.redact.tally import counting
from ctxkit.offload.redact.text import Redactor, clear_start, redact_text, redacted_pieces
from ctxkit.offload.redact.walk import redact_body, redact_json

__all__ = [
    "DEFAULT_REDACTOR",
    "RULES",
    "Redactor",
    "Rule",
    "SecretRedactor",
    "Span",
    "clear_start",
    "counting",
    "redact_body",
    "redact_json",
    "redact_messages",
    "redact_result",
    "redact_text",
    "redacted_pieces",
    "redactor_of",
]
