"""Content classes: kinds of text that a tokenizer treats alike.

Tokens a byte differ by a factor of five between English prose and base64, and tokenizers differ most in some of them
(o200k needs a third fewer tokens than cl100k for Chinese, the same for code). So weights are kept, and corrected, a
class.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class ContentClass(StrEnum):
    """A kind of content; the order of the members is the order of a `Weight`'s numbers."""

    PROSE = "prose"
    CODE = "code"
    JSON = "json"
    CJK = "cjk"
    DENSE = "dense"
    """Hex, base64, uuids, columns of digits."""
    LOG = "log"
    FRAME = "frame"
    """What the wire format adds: framing of messages, roles, ids, tool names."""
    MEDIA = "media"
    THINKING = "thinking"
    """Apart from prose, for some formatters and providers drop it."""


_SAMPLE_CHARS: Final = 512
_SAMPLES: Final = 4

# The shares below were set by hand on the sixteen samples of research (prose, code, JSON, logs, csv, base64 ...), which
# the tests hold a miniature of.
_CJK_SHARE: Final = 0.25
_DENSE_SHARE: Final = 0.5
_LOG_SHARE: Final = 0.4
_QUOTE_SHARE: Final = 0.03
_CODE_SHARE: Final = 0.035
_CODE_WORD_LINES_SHARE: Final = 0.2

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_DIGITS = re.compile(r"[0-9]")
# A long unbroken run with a digit or an inner capital in it: hashes, base64, uuids, tokens. Plain words have neither.
_RUN = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
_RUN_MIXED = re.compile(r"[0-9]|[a-z][A-Z]")
_LOG_LINE = re.compile(
    r"""^\W{0,2}(?:
        \d{4}-\d\d-\d\d[T ]\d\d: | \d\d:\d\d:\d\d | \d{1,3}(?:\.\d{1,3}){3}\b | \w{3}\s+\d{1,2}\s\d\d:\d\d
        | (?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b | [-dlcbps][-rwxsStT]{9}
        | \S+:\d+:  # path:line: of grep and compilers
    )""",
    re.VERBOSE,
)
_JSON_PAIR = re.compile(r'"\s*:\s|":|",|"\]|"\}')
_CODE_MARKS = "{}()[];=<>"
_CODE_WORD = re.compile(
    r"^\s*(?:def|class|return|import|from|if|elif|else|for|while|function|const|let|var|public|private|static|fn|func"
    r"|async|await|export|package|struct|enum|interface|#include|try|except|raise|with|@\w+)\b"
)


def classify(text: str) -> ContentClass:  # noqa: PLR0911 - one a class
    """Return the class of a text by its looks.

    Args:
        text: Any text; of a long one, four samples of 512 characters are looked at.

    Returns:
        One of `PROSE`, `CODE`, `JSON`, `CJK`, `DENSE` and `LOG`; the others are given by where content stands.
    """
    sample = _sample(text)
    solid = len(sample) - sample.count(" ") - sample.count("\n")
    if not solid:
        return ContentClass.PROSE
    if not sample.isascii() and len(_CJK.findall(sample)) > _CJK_SHARE * solid:
        return ContentClass.CJK
    if _is_json(sample):
        return ContentClass.JSON
    lines = [line for line in sample.splitlines() if line.strip()]
    if sum(1 for line in lines if _LOG_LINE.match(line)) > _LOG_SHARE * len(lines):
        return ContentClass.LOG
    if _dense_chars(sample) > _DENSE_SHARE * solid:
        return ContentClass.DENSE
    marks = sum(map(sample.count, _CODE_MARKS))
    words = sum(1 for line in lines if _CODE_WORD.match(line))
    if marks > _CODE_SHARE * solid or words > max(1, _CODE_WORD_LINES_SHARE * len(lines)):
        return ContentClass.CODE
    return ContentClass.PROSE


def _sample(text: str) -> str:
    """Return the text, or evenly spread samples of it, at most 2,051 characters."""
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1)
    return "\n".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))


def _is_json(sample: str) -> bool:
    """Tell whether quotes stand as JSON sets them: often, and next to a colon, a comma or a bracket."""
    quotes = sample.count('"')
    if quotes < 2:  # noqa: PLR2004 - one pair is the least that JSON text has
        return False
    closing = len(_JSON_PAIR.findall(sample))
    return quotes > _QUOTE_SHARE * len(sample) and closing >= quotes // 3


def _dense_chars(sample: str) -> int:
    """Return how many characters are digits, or stand in long runs that are no words."""
    in_runs = 0
    digits_in_runs = 0
    for run in _RUN.findall(sample):
        if _RUN_MIXED.search(run):
            in_runs += len(run)
            digits_in_runs += len(_DIGITS.findall(run))
    return in_runs + len(_DIGITS.findall(sample)) - digits_in_runs
