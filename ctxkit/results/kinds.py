"""Tells what kind a text is, from a sample of its start and its end."""

import re
from collections import Counter
from typing import Final

from ctxkit.results._base import Kind

_HEAD_CHARS: Final = 8_000
_TAIL_CHARS: Final = 4_000
_MIN_LINES: Final = 5
"""Fewest lines that can show a shape."""
_LOG_SHARE: Final = 0.3
"""Share of lines with a time or a level from which on a text is a log."""
_SHAPE_SHARE: Final = 0.4
"""Share of lines that begin alike from which on a text is a log."""
_TABLE_SHARE: Final = 0.9
"""Share of lines that have as many fields as the header."""
_MIN_FIELDS: Final = 3

_JSON_START: Final = re.compile(
    r"\s*(?:\{\s*(?:\"|\})|\[\s*(?:[\"\[{\]]|(?:-?\d[\d.eE+-]*|true|false|null)\s*(?:,|\]\s*\Z)))"
)
_DIFF_START: Final = re.compile(
    r"^(?:diff --git .|@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|--- .*\n\+\+\+ .*\n@@ )", re.MULTILINE
)
_STAMP: Final = re.compile(
    r"^\W{0,3}(?:\w{3} {1,2}\d{1,2} \d\d:|\d{4}[-/]\d\d[-/]\d\d[T ]|\d{1,2}:\d\d:\d\d|\d{10,13}\b|"
    r"\d\d[-/]\w{2,3}[-/]\d{2,4}[ :])"
)
_LEVEL: Final = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|FAILED|PASSED|ok|npm ERR!)\b"
)
_LEVEL_CHARS: Final = 60
"""A level stands near the start of its line."""
_FAILURE: Final = re.compile(
    r"^(?:Traceback \(most recent call last\)|={3,} (?:FAILURES|ERRORS|short test summary)|\w*(?:Error|Exception): |"
    r"FAILED |ERROR[ :]|npm ERR!|error(?:\[\w+\])?: |fatal: |Exit code:? [1-9]|make.*\*\*\* )",
    re.MULTILINE,
)
_RULE: Final = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)+\|?\s*$")
_COLUMN_GAP: Final = re.compile(r"\s{2,}|\t")
_RUNS: Final = re.compile(r"[A-Za-z_]+|\d+|\s+")


def detect(text: str, *, tool_name: str, verbatim: bool) -> Kind:
    """Return the likeliest kind of a text.

    Args:
        text: The text; only its first and last few thousand characters are looked at.
        tool_name: The tool that gave it; diffs are often named in it.
        verbatim: An editor will match the text; then it is TEXT, whatever it looks like.
    """
    return likely_kinds(text, tool_name=tool_name, verbatim=verbatim)[0]


def likely_kinds(text: str, *, tool_name: str, verbatim: bool) -> list[Kind]:
    """Return the kinds that a text may be, likeliest first; the last is always TEXT. Arguments as for `detect`."""
    if verbatim:
        return [Kind.TEXT]
    head, tail = _ends_of(text)
    kinds: list[Kind] = []
    if _JSON_START.match(head):
        kinds.append(Kind.JSON)
    if _has_hunks(head, tail, tool_name):
        kinds.append(Kind.DIFF)
    head_lines = head.split("\n")[: None if len(head) == len(text) else -1]
    lines = [line.rstrip("\r") for line in head_lines + tail.split("\n")[1:] if line.strip()]
    if len(lines) >= _MIN_LINES:
        if table_header(head_lines):
            kinds.append(Kind.TABLE)
        if is_log(lines) or _FAILURE.search(tail or head):
            kinds.append(Kind.LOG)
    return [*kinds, Kind.TEXT]


def is_diff(text: str, *, tool_name: str) -> bool:
    """Tell whether a text is likeliest a diff, as `detect` does, without a look at what else it may be."""
    head, tail = _ends_of(text)
    return not _JSON_START.match(head) and _has_hunks(head, tail, tool_name)


def _ends_of(text: str) -> tuple[str, str]:
    return text[:_HEAD_CHARS], text[max(_HEAD_CHARS, len(text) - _TAIL_CHARS) :]


def _has_hunks(head: str, tail: str, tool_name: str) -> bool:
    found = _DIFF_START.search(head) or ("diff" in tool_name.lower() and _DIFF_START.search(tail))
    return bool(found)


def is_log(lines: list[str]) -> bool:
    """Tell whether sampled lines look like a log: times, levels, or many lines that begin alike."""
    marked = sum(1 for line in lines if _STAMP.match(line) or _LEVEL.search(line, 0, _LEVEL_CHARS))
    if marked >= _LOG_SHARE * len(lines):
        return True
    shapes = Counter(_shape(line) for line in lines)
    shape, often = shapes.most_common(1)[0]
    is_prose = not shape.strip("a ")
    return len(lines) >= 4 * _MIN_LINES and often >= _SHAPE_SHARE * len(lines) and not is_prose


def table_header(lines: list[str]) -> int:
    """Return how many of the first lines are a table's header, 0 where the lines are no table."""
    rows = [row.rstrip("\r") for row in _whole_rows(lines) if row.strip()]
    if len(rows) < _MIN_LINES:
        return 0
    if _RULE.match(rows[1]) and "|" in rows[0]:
        return 2
    if sum(1 for row in rows if _STAMP.match(row) and _LEVEL.search(row, 0, _LEVEL_CHARS)) > len(rows) // 2:
        return 0
    for mark in "\t,;|":
        fields = _fields(rows[0], mark)
        alike = sum(1 for row in rows if _fields(row, mark) == fields)
        if fields >= _MIN_FIELDS - (mark == "\t") and alike >= _TABLE_SHARE * len(rows):
            return 1
    fields = len(_COLUMN_GAP.split(rows[0].strip()))
    widths = [len(_COLUMN_GAP.split(row.strip())) for row in rows]
    has_columns = fields >= _MIN_FIELDS and sum(1 for n in widths if abs(n - fields) <= 1) >= _TABLE_SHARE * len(rows)
    return int(has_columns and not rows[0][0].isspace())


def _whole_rows(lines: list[str]) -> list[str]:
    """Join the lines of rows that span several in quotes; quotes that do not pair are none."""
    rows: list[str] = []
    is_open = False
    for line in lines:
        if is_open:
            rows[-1] = f"{rows[-1]}\n{line}"
        else:
            rows.append(line)
        is_open ^= line.count('"') % 2 == 1
    return rows if len(rows) >= _MIN_LINES else lines


def _fields(row: str, mark: str) -> int:
    """Count fields; a mark inside quotes does not part them."""
    return sum(part.count(mark) for part in row.split('"')[::2]) + 1


def _shape(line: str) -> str:
    """Return the shape of a line's start: words, numbers and blanks as one letter each."""
    start = line[:40]
    return _RUNS.sub(lambda run: "a" if run[0][0].isalpha() else "0" if run[0][0].isdigit() else " ", start)[:8]
