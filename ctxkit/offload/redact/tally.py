"""Counts what is redacted while somebody listens, by task: what runs at the same time is counted apart."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_TALLY: Final[ContextVar[Counter[str] | None]] = ContextVar("ctxkit_redacted", default=None)


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Give a counter, by kind, of what this task and those that it starts redact within the block."""
    tally: Counter[str] = Counter()
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)


def count(kinds: Iterable[str]) -> None:
    """Count replacements for whoever listens."""
    tally = _TALLY.get()
    if tally is not None:
        tally.update(kinds)
