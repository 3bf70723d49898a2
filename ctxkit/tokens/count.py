"""Counting texts of any length: in short pieces, each remembered, the event loop served in between."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from ctxkit.tokens.classes import ContentClass, classify
from ctxkit.tokens.weight import Weight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.tokens.counter import Counter

PIECE_CHARS: Final = 8192
"""Most characters of a piece: at most 32 kB of UTF-8, about 1 ms of tiktoken's work, 4 ms at worst."""
_CUT_CHARS: Final = 256
"""How far before a piece's end a space or a line break is looked for."""
_WORK_S: Final = 0.004
"""Seconds of work after which the event loop gets its turn."""
_MEMO_ENTRIES: Final = 200_000
"""Most pieces remembered; an entry takes about 200 bytes and holds no text."""

_memo: OrderedDict[tuple[int, int, str], tuple[ContentClass, int]] = OrderedDict()
"""(hash, length, counter's name) to class and tokens: by content, so that copies and restored states hit."""
_served_at = 0.0


async def serve_loop() -> None:
    """Give the event loop its turn where this process has counted for some milliseconds since the last one."""
    global _served_at  # noqa: PLW0603 - a budget that all counting in the process shares
    if time.perf_counter() - _served_at > _WORK_S:
        await asyncio.sleep(0)
        _served_at = time.perf_counter()


def cut_pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most 8,192 characters, cut before a space or a line break where one is near.

    A space goes with the word behind it, as tokenizers have it, so a cut seldom changes the sum.
    """
    start = 0
    while len(text) - start > PIECE_CHARS:
        stop = start + PIECE_CHARS
        cut = text.rfind(" ", stop - _CUT_CHARS, stop)
        if cut < 0:
            cut = text.rfind("\n", stop - _CUT_CHARS, stop)
        if cut < 0:
            cut = stop
        yield text[start:cut]
        start = cut
    if start < len(text):
        yield text[start:] if start else text


def weigh_piece(piece: str, counter: Counter) -> tuple[ContentClass, int]:
    """Return class and tokens of one piece of at most `PIECE_CHARS` characters, from memory where it is there."""
    key = (hash(piece), len(piece), counter.name)
    found = _memo.get(key)
    if found is not None:
        _memo.move_to_end(key)
        return found
    weighed = (classify(piece), counter.count(piece))
    _memo[key] = weighed
    if len(_memo) > _MEMO_ENTRIES:
        _memo.popitem(last=False)
    return weighed


async def count_text(text: str, counter: Counter) -> int:
    """Return the tokens of a text of any length, within about 0.1% of what the counter says of the whole."""
    tokens = 0
    for piece in cut_pieces(text):
        tokens += weigh_piece(piece, counter)[1]
        await serve_loop()
    return tokens


async def weigh_text(text: str, counter: Counter, *, as_class: ContentClass | None = None) -> Weight:
    """Return the weight of a text of any length; each piece has its own class.

    Args:
        text: The text.
        counter: Counts a piece.
        as_class: The class of all of it, where the place says more than the looks.
    """
    parts: dict[ContentClass, int] = {}
    for piece in cut_pieces(text):
        content_class, tokens = weigh_piece(piece, counter)
        if as_class is not None:
            content_class = as_class
        parts[content_class] = parts.get(content_class, 0) + tokens
        await serve_loop()
    return Weight.of(parts)
