"""Nothing invented: what stands in none of a summary's sources is marked as unverified."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ctxkit.summary.verify.claims import MARK, RECORD, Claim

MOST_MARKS: Final = 24
"""Marks of one summary; where more is invented, it is not usable anyway."""

_CLOSING: Final = re.compile(r"[`'\")\]*_]{0,3}")


def with_marks(text: str, claims: Iterable[Claim], shown: Mapping[Claim, str] | None = None) -> str:
    """Return a text in which these claims of it carry the mark, and what the record shows stands behind others.

    Args:
        text: One field of a summary.
        claims: What was found in it and in none of its sources.
        shown: What is put behind claims that say otherwise; behind the mark where one has both.
    """
    added = dict(shown or {})
    for claim in claims:
        added[claim] = " ".join(filter(None, (MARK, added.get(claim, ""))))
    for claim in sorted(added, key=lambda one: one.stop, reverse=True):
        # What the record shows stands at once behind the number; it is the number that it sets right.
        at = _behind(text, claim) if added[claim].startswith(MARK) else claim.stop
        text = f"{text[:at]} {added[claim]}{text[at:]}"
    return text


def is_marked(text: str, claim: Claim) -> bool:
    """Whether a mention carries the mark, or what the record shows, since an earlier check."""
    return text.startswith((f" {MARK}", f" {RECORD}"), _behind(text, claim)) or text.startswith(
        f" {RECORD}", claim.stop
    )


def _behind(text: str, claim: Claim) -> int:
    """Return where a mention ends, its closing signs included."""
    closing = _CLOSING.match(text, claim.stop)
    return closing.end() if closing else claim.stop
