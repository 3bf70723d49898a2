"""Nothing invented: what stands in none of a summary's sources is marked as unverified."""

import re
from collections.abc import Iterable
from typing import Final

from ctxkit.summary.verify.claims import MARK, Claim

MOST_MARKS: Final = 24
"""Marks of one summary; where more is invented, it is not usable anyway."""

_CLOSING: Final = re.compile(r"[`'\")\]*_]{0,3}")


def with_marks(text: str, claims: Iterable[Claim]) -> str:
    """Return a text in which the first mention of each of these claims of it carries the mark; a mark is put once.

    Args:
        text: One field of a summary.
        claims: What was found in it and in none of its sources.
    """
    for claim in sorted(claims, key=lambda one: one.stop, reverse=True):
        closing = _CLOSING.match(text, claim.stop)
        at = closing.end() if closing else claim.stop
        if not text.startswith(f" {MARK}", at):
            text = f"{text[:at]} {MARK}{text[at:]}"
    return text
