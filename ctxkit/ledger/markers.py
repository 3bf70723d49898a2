"""Texts that the host or ctxkit put between the words of others: they are no facts."""

import re
from typing import Final

_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[()*+#%][0-~]|[=>78A-Z\\])?|\x9b(?:[0-?]*[ -/]*[@-~])?"
)
"""Control sequences, strings and two-character escapes of ECMA-48; an introducer that begins none of them goes alone."""
_SPANS: Final = (
    ("<system-reminder>", "</system-reminder>"),
    ("<system-info>", "</system-info>"),
    ("<system-hint>", "</system-hint>"),
)
_MARKS: Final = ("<<<TRUNCATED>>>", *(mark for span in _SPANS for mark in span))


def without_escapes(text: str) -> str:
    """Return a text without a terminal's escape codes: colours, moves of the cursor, titles."""
    return _ESCAPES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def without_markers(text: str) -> str:
    """Return a text without reminders, markers and escape codes; where a tool forged one, its words go with it."""
    text = without_escapes(text)
    if "<system-" not in text and "<<<" not in text and "</system-" not in text:
        return text
    for opening, closing in _SPANS:
        text = _without_spans(text, opening, closing)
    for mark in _MARKS:
        text = text.replace(mark, " ")
    return text


def _without_spans(text: str, opening: str, closing: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (stop := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = stop + len(closing)
    return " ".join([*kept, text[at:]]) if kept else text
