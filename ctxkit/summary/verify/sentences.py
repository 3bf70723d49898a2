"""Sentences of a summary, by their places in its text."""

import re
from collections.abc import Iterator
from typing import Final

_END: Final = re.compile(r"(?<=[.!?;。！？；])\s+|\n+")  # noqa: RUF001 - Chinese sentences end so
_QUOTED: Final = re.compile(r"`[^`\n]*`")
_BULLET: Final = re.compile(r"\s*(?:[-*+•#>]+|\d{1,2}[.)])?\s*(?:\[[ x]\]\s*)?")


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence or item of a list starts, behind its bullet, and where it stops; none ends in backticks."""
    start = 0
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    ends = [match for match in _END.finditer(text) if not any(a < match.start() < b for a, b in quoted)]
    for match in (*ends, None):
        stop = len(text) if match is None else match.start()
        bullet = _BULLET.match(text, start, stop)
        begin = bullet.end() if bullet else start
        if begin < stop:
            yield begin, stop
        start = len(text) if match is None else match.end()
