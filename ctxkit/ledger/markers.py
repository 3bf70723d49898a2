"""Texts that the host or ctxkit put between the words of others: they are no facts."""

from typing import Final

_SPANS: Final = (
    ("<system-reminder>", "</system-reminder>"),
    ("<system-info>", "</system-info>"),
    ("<system-hint>", "</system-hint>"),
)
_MARKS: Final = ("<<<TRUNCATED>>>", *(mark for span in _SPANS for mark in span))


def without_markers(text: str) -> str:
    """Return a text without reminders and markers; where a tool forged one, its words go with it."""
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
