"""Search terms of a text: words, identifiers whole and in parts, and pairs of characters where words have no spaces."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_RUN: Final = re.compile(r"\w+(?:[-./\\:@#~+]+\w+)*")
"""A word, or what holds together without a space: a path, an id, a dotted or dashed name."""
_COMPONENT: Final = re.compile(r"[^/\\]+")
_PART: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\dA-Za-z_]+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Japanese, Chinese, Korean."""

_TERM_CHARS: Final = 64
"""Longer terms are cut; literal search finds the rest of them."""


def terms(text: str) -> Iterator[str]:
    """Yield the terms of a text: lower-case letters and digits only, in order, with repeats.

    `src/HttpServer.py` gives `src`, `httpserver`, `http`, `server`, `py`, `httpserverpy` and `srchttpserverpy`, so that
    it is found by its words, by its file name and as a whole; 数据库 gives `数据` and `据库`.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    for run in _RUN.findall(text):
        if run.isascii() and run.islower() and run.isalpha():  # most of them
            yield run[:_TERM_CHARS]
            continue
        components = _COMPONENT.findall(run)
        for component in components:
            yield from _component_terms(component)
        if len(components) > 1:
            yield _joined(run)


def _component_terms(component: str) -> Iterator[str]:
    parts = _PART.findall(component)
    for part in parts:
        unspaced = _UNSPACED.findall(part)
        for stretch in unspaced:
            yield from (stretch[at : at + 2] for at in range(max(1, len(stretch) - 1)))
        if unspaced:
            part = _UNSPACED.sub(" ", part)  # noqa: PLW2901 - what is left of it
        for word in part.split():
            yield word.lower()[:_TERM_CHARS]
            if not word.islower() and not word.isdigit():
                yield from (piece.lower()[:_TERM_CHARS] for piece in _CAMEL.findall(word) if len(piece) < len(word))
    if len(parts) > 1:
        yield _joined(component)


def _joined(text: str) -> str:
    return "".join(_PART.findall(text)).lower()[:_TERM_CHARS]
