"""Shortens prose and whatever else has no shape: both ends, cut at a line, else a word, else a grapheme."""

import re
from typing import Final

from ctxkit.results._base import Kind, Ruler, Shortened
from ctxkit.tokens.grapheme import is_boundary

_LINE_SHARE: Final = 0.25
"""A cut moves to a line's end if that costs at most this share of the part."""
_WORD_CHARS: Final = 64
"""A cut moves to a word's end if that costs at most so many characters."""
_BLANK: Final = re.compile(r"\s")


def end_at_boundary(head: str, rest: str, *, lines_only: bool) -> str:
    """Return the head of a text, ended at its last line or word.

    Args:
        head: A prefix of a text that ends at a grapheme.
        rest: At least the character that follows it.
        lines_only: Move to a line's end however far away it is, and never to a word's.

    Returns:
        The head or a prefix of it; a head without any line or word end in reach stays as it is.
    """
    if head.endswith("\n") or not head:
        return head
    cut = head.rfind("\n", 0 if lines_only else int(len(head) * (1 - _LINE_SHARE))) + 1
    if cut or lines_only or not rest:
        return head[:cut] if cut else head
    if rest[0].isspace():
        return head
    for at in range(len(head) - 1, max(0, len(head) - _WORD_CHARS), -1):
        if head[at - 1].isspace() and is_boundary(head, at):
            return head[:at]
    return head


def start_at_boundary(tail: str, before: str, *, lines_only: bool) -> str:
    """Return the tail of a text, started at its first line or word; the mirror of `end_at_boundary`.

    Args:
        tail: A suffix of a text that starts at a grapheme.
        before: At least the character before it.
        lines_only: Move to a line's start however far away it is, and never to a word's.

    Returns:
        The tail or a suffix of it.
    """
    if before.endswith("\n") or not tail:
        return tail
    reach = len(tail) if lines_only else int(len(tail) * _LINE_SHARE) + 1
    cut = tail.find("\n", 0, reach) + 1
    if 0 < cut < len(tail):
        return tail[cut:]
    if lines_only or before[-1:].isspace():
        return tail
    for found in _BLANK.finditer(tail, 0, _WORD_CHARS):
        at = found.end()
        if at < len(tail) and is_boundary(tail, at):
            return tail[at:]
    return tail


class TextShortener:
    """Keeps head and tail.

    Args:
        lines_only: Cut between lines only, as an editor needs it; a text of one line is cut inside it all the same.
    """

    kind: Final = Kind.TEXT

    def __init__(self, *, lines_only: bool = False) -> None:
        self._lines_only = lines_only

    async def shorten(
        self,
        text: str,
        *,
        limit_tokens: int,
        head_ratio: float,
        ruler: Ruler,
        tool_name: str,  # noqa: ARG002 - the protocol's; a text is cut alike whatever gave it
    ) -> Shortened | None:
        """Keep both ends; see `Shortener.shorten`."""
        head_tokens = max(1, round(limit_tokens * head_ratio))
        head = await ruler.head(text, head_tokens)
        head = end_at_boundary(head, text[len(head) : len(head) + 1], lines_only=self._lines_only)
        tail = await ruler.tail(text, limit_tokens - head_tokens) if head_tokens < limit_tokens else ""
        start = len(text) - len(tail)
        tail = start_at_boundary(tail, text[max(0, start - 1) : start], lines_only=self._lines_only)
        if len(head) + len(tail) >= len(text):
            return None
        last = f" and last {len(tail)}" if tail else ""
        shown = f"first {len(head)}{last} of {len(text)} characters"
        return Shortened(head=head, tail=tail, kind=self.kind, shown=shown, offset=len(head))
