"""Jobs that go on in the background: which a tool said it had started, and which something said to be over."""

import re
from typing import Final

from ctxkit.ledger.identifiers import identifiers_of

NOTICE_CHARS: Final = 600
"""The notice of a job is short."""

_STARTED: Final = re.compile(
    r"\b(?:running|started|runs|launched|continues|moved|executing)\b.{0,60}\bbackground\b"
    r"|\bbackground (?:task|job|process|command)\b.{0,40}\b(?:started|running|launched|created|id)\b",
    re.IGNORECASE | re.DOTALL,
)
_JOB: Final = re.compile(r"(?=.*\d)[\w\-]{5,}")
"""The id of a job; shorter ones are times and counts."""
_OVER: Final = re.compile(
    r"\b(?:completed?|finished|done|exited|exit code|killed|stopped|terminated|failed|cancell?ed)\b", re.IGNORECASE
)


def started_in(text: str) -> tuple[str, ...] | None:
    """Return the names of a job that a text says goes on in the background, in lower case; `None` where it says none."""
    notice = text[:NOTICE_CHARS]
    if "background" not in notice.lower() or not _STARTED.search(notice):
        return None
    return tuple(filter(_JOB.fullmatch, map(str.lower, identifiers_of(notice, 8))))


def says_over(text: str) -> str | None:
    """Return how a notice says that something ended, one word in lower case; `None` where it does not say so."""
    found = _OVER.search(text[:NOTICE_CHARS])
    return None if found is None else found[0].lower()
