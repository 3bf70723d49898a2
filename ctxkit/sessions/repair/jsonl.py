"""Reads a file of JSON lines that may hold anything, in bounded memory, and says of each line whether it is a record."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ctxkit.offload.directory import read_at

LINE_BYTES: Final = 16 << 20
"""Longer lines are taken at their brackets: parsing them would take many times their size in memory."""
_CHUNK_BYTES: Final = 1 << 20
_BLANKS: Final = b" \t\r"
_FILLER: Final = b" \t\r\0"
"""What may stand round a record: a power cut leaves zeros where a write did not reach the disk."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file."""

    number: int
    """1-based."""
    start: int
    """Byte at which it begins."""
    size: int
    """Bytes, without its line break."""
    data: bytes
    """The line, or its first `LINE_BYTES`."""
    last: bytes
    """Its last byte."""
    is_ended: bool
    """Whether it has a line break."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a line is."""

    kind: Literal["object", "blank", "bad"]
    value: dict[str, Any] | None = None
    """What an object holds; `None` where it was too long to be parsed."""
    start: int = 0
    """Byte at which the object begins, counted in the file."""
    end: int = 0
    """Byte behind the object."""
    problem: str = ""
    """Why a bad line is one."""


def lines_of(descriptor: int) -> Iterator[Line]:
    """Yield the lines of an open file."""
    number, start, size, at = 1, 0, 0, 0
    data, last = bytearray(), b""
    while chunk := read_at(descriptor, _CHUNK_BYTES, at):
        at += len(chunk)
        pieces = chunk.split(b"\n")
        for count, piece in enumerate(pieces, 1):
            data += piece[: LINE_BYTES - len(data)]
            last = piece[-1:] or last
            size += len(piece)
            if count < len(pieces):
                yield Line(number, start, size, bytes(data), last, is_ended=True)
                number, start, size = number + 1, start + size + 1, 0
                data, last = bytearray(), b""
    if size:
        yield Line(number, start, size, bytes(data), last, is_ended=False)


def judge(line: Line) -> Verdict:
    """Return what a line is."""
    if line.size > LINE_BYTES:
        if line.data.startswith(b"{") and line.last in {b"}", b"\r"} and line.is_ended:
            return Verdict("object", start=line.start, end=line.start + line.size)
        return Verdict("bad", problem=f"{line.size} bytes without a line break that are no JSON object")
    text = line.data.strip(_FILLER)
    if not text:
        is_blank = not line.data.strip(_BLANKS)
        return Verdict("blank") if is_blank else Verdict("bad", problem="nothing but zeros")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        return Verdict("bad", problem=f"no JSON: {str(exc)[:120]}")
    if not isinstance(value, dict):
        return Verdict("bad", problem=f"a JSON {type(value).__name__}, not an object")
    start = line.start + line.data.index(text)
    return Verdict("object", value=value, start=start, end=start + len(text))
