"""A tool result as the bytes that are stored of it, chunk by chunk: redacted, and of a huge one head and tail."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ctxkit.offload.redact import Redactor, clear_start, redacted_pieces

_PIECE_CHARS: Final = 32_768
_CHUNK_BYTES: Final = 1 << 18
"""A store may take a thread for each chunk, so there should be few."""

_LEFT_OUT: Final = (
    "\n[... {left} of {total} bytes were left out here and are stored nowhere: of one result at most {limit} bytes are "
    "kept, its beginning and its end (StoreOffloader.result_bytes) ...]\n"
)


class _Part(NamedTuple):
    text: str
    start: int
    stop: int


async def result_chunks(
    texts: Sequence[str], *, redactor: Redactor | None, limit_bytes: int | None
) -> AsyncGenerator[bytes, None]:
    """Yield what is stored of a result, in chunks of about 256 kB, pausing after each 32,768 characters.

    The result itself is never copied as a whole. What is longer than the limit loses its middle, and a line says so.

    Args:
        texts: The result's texts, one behind the other.
        redactor: Redacts; `None` for nothing.
        limit_bytes: Most bytes of the texts, before they are redacted, in UTF-8; `None` for all.

    Raises:
        ConfigError: The redactor failed.
    """
    head, gap, tail = await _parts(texts, redactor=redactor, limit_bytes=limit_bytes)
    gathered = bytearray()
    for part, after in ((head, gap), (tail, "")):
        for text, start, stop in part:
            async for piece in redacted_pieces(text, redactor, start, stop):
                gathered += _encoded(piece)
                if len(gathered) >= _CHUNK_BYTES:
                    yield bytes(gathered)
                    gathered.clear()
        gathered += after.encode()
    yield bytes(gathered)


async def _parts(
    texts: Sequence[str], *, redactor: Redactor | None, limit_bytes: int | None
) -> tuple[list[_Part], str, list[_Part]]:
    """Return what is kept from the start, the line that stands for what is not, and what is kept from the end."""
    whole = [_Part(text, 0, len(text)) for text in texts]
    sizes = [await _bytes_of(part) for part in whole] if limit_bytes is not None else []
    total = sum(sizes)
    if limit_bytes is None or total <= limit_bytes:
        return whole, "", []
    head: list[_Part] = []
    room = limit_bytes // 2
    for part, size in zip(whole, sizes, strict=True):
        if size > room:
            head.append(part._replace(stop=await _prefix(part, room)))
            break
        head.append(part)
        room -= size
    tail: list[_Part] = []
    room = limit_bytes - limit_bytes // 2
    for part, size in zip(reversed(whole), reversed(sizes), strict=True):
        if size > room:
            start = await _suffix(part, room)
            tail.append(part._replace(start=clear_start(part.text, start, redactor)))
            break
        tail.append(part)
        room -= size
    tail.reverse()
    kept = sum([await _bytes_of(part) for part in (*head, *tail)])
    return head, _LEFT_OUT.format(left=total - kept, total=total, limit=limit_bytes), tail


async def _bytes_of(part: _Part) -> int:
    """Return the bytes of a part in UTF-8."""
    if part.text.isascii():
        return max(0, part.stop - part.start)
    size = 0
    for at in range(part.start, part.stop, _PIECE_CHARS):
        size += len(_encoded(part.text[at : min(at + _PIECE_CHARS, part.stop)]))
        await asyncio.sleep(0)
    return size


async def _prefix(part: _Part, room: int) -> int:
    """Return where a part must end so that it has at most so many bytes."""
    at = part.start
    while at < part.stop:
        piece = part.text[at : min(at + _PIECE_CHARS, part.stop)]
        size = len(_encoded(piece))
        if size > room:
            return at + bisect_right(range(len(piece) + 1), room, key=lambda n: len(_encoded(piece[:n]))) - 1
        room -= size
        at += len(piece)
        await asyncio.sleep(0)
    return part.stop


async def _suffix(part: _Part, room: int) -> int:
    """Return where a part must begin so that it has at most so many bytes."""
    at = part.stop
    while at > part.start:
        piece = part.text[max(at - _PIECE_CHARS, part.start) : at]
        size = len(_encoded(piece))
        if size > room:
            return (
                at - bisect_right(range(len(piece) + 1), room, key=lambda n: len(_encoded(piece[len(piece) - n :]))) + 1
            )
        room -= size
        at -= len(piece)
        await asyncio.sleep(0)
    return part.start


def _encoded(text: str) -> bytes:
    """Return a text in UTF-8; lone surrogates become escapes."""
    return text.encode("utf-8", "backslashreplace")
