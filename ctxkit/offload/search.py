"""Literal search in what is stored: no index, no patterns, the case of ASCII letters apart."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ctxkit.offload.files.log_index import Row
from ctxkit.offload.lines import bare

PIECE_BYTES: Final = 1 << 18
"""Content is looked through in pieces of this size: one takes about half a millisecond of the interpreter."""


class Needle:
    """A text to look for.

    Args:
        text: The text; an empty one is everywhere.
    """

    def __init__(self, text: str) -> None:
        plain = text.encode("utf-8", "backslashreplace").lower()
        escaped = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
        self._plain = (plain,)
        self._in_json = tuple({one.encode("utf-8", "backslashreplace").lower() for one in escaped})

    def is_on_line(self, line: bytes) -> bool:
        """Tell whether a record has the text, as its JSON has it, escaped or not; what ctxkit added does not count."""
        body = bare(line).lower()
        return any(one in body for one in self._in_json)

    def is_in(self, pieces: Iterable[bytes], *, is_json: bool = False) -> bool:
        """Tell whether a content in pieces has the text.

        Args:
            pieces: The content, one piece after another.
            is_json: Whether the text may be escaped in it.
        """
        wanted = self._in_json if is_json else self._plain
        overlap = max(map(len, wanted)) - 1
        before = b""
        for piece in pieces:
            now = before + piece.lower()
            if any(one in now for one in wanted):
                return True
            before = now[-overlap:] if overlap else b""
        return b"" in wanted


def neighbours(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield records in groups that can be read at once, the newest first.

    Args:
        rows: The records, oldest first.

    Yields:
        Records of one file that stand within a piece, or a single one.
    """
    group: list[Row] = []
    for row in reversed(rows):
        if group and (
            row.line.spill is not None
            or group[0].line.spill is not None
            or row.segment != group[0].segment
            or group[0].offset + group[0].size - row.offset > PIECE_BYTES
        ):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
