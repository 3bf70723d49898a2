"""Reads a big text in blocks of whole lines, so that scanning it never holds the loop."""

from collections.abc import AsyncIterator

from ctxkit.results._base import PIECE_CHARS, Pace


async def line_blocks(text: str, start: int, end: int) -> AsyncIterator[tuple[int, int]]:
    """Give the places of blocks of whole lines, about `PIECE_CHARS` long; a longer line is a block of its own.

    Args:
        text: The text.
        start: Where a line begins.
        end: Where to stop.

    Yields:
        Begin and end of each block; other tasks get a turn in between.
    """
    pace = Pace()
    at = start
    while at < end:
        stop = text.rfind("\n", at, min(at + PIECE_CHARS, end)) + 1
        if not stop:
            stop = text.find("\n", at, end) + 1 or end
        yield at, stop
        await pace.after(stop - at)
        at = stop
