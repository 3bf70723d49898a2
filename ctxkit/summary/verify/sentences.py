"""Sentences of a summary, by their places in its text."""

import re
from collections.abc import Iterator
from typing import Final

_END: Final = re.compile(r"(?<=[.!?;。！？；])\s+|\n+")  # noqa: RUF001 - Chinese sentences end so
_QUOTED: Final = re.compile(r"`[^`\n]{0,1000}`")
_BULLET: Final = re.compile(r"\s*(?:[-*+•#>]+|\d{1,2}[.)])?\s*(?:\[[ x]\]\s*)?")


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence or item of a list starts, behind its bullet, and where it stops; none ends in backticks."""
    start = 0
    for match in (*_ends(text), None):
        stop = len(text) if match is None else match.start()
        bullet = _BULLET.match(text, start, stop)
        begin = bullet.end() if bullet else start
        if begin < stop:
            yield begin, stop
        start = len(text) if match is None else match.end()


def _ends(text: str) -> Iterator["re.Match[str]"]:
    """Yield the ends of sentences that stand in no backticks."""
    quotes = _QUOTED.finditer(text)
    quoted = next(quotes, None)
    for match in _END.finditer(text):
        while quoted is not None and quoted.end() <= match.start():
            quoted = next(quotes, None)
        if quoted is None or match.start() <= quoted.start():
            yield match
