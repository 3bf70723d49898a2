"""Pictures: width and height from the first bytes of a PNG, GIF, WebP or JPEG, without an imaging library."""

from __future__ import annotations

import base64
import binascii
from typing import Final, Literal

_HEAD_BYTES: Final = 4096
_JPEG_BYTES: Final = 256 * 1024
"""A JPEG may carry thumbnails and colour profiles, at most 64 kB each, before it says its size."""
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a start of frame (ITU T.81, table B.1)."""
_JPEG_BARE: Final = frozenset({0x01, *range(0xD0, 0xDA)})
"""Markers that have no length."""


def picture_size(data: str) -> tuple[int, int] | tuple[None, None]:
    """Return width and height in pixels of a picture in base64, or two `None` where they cannot be read."""
    head = decode_head(data, _HEAD_BYTES)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _pair(head, 16, 4, "big")
    if head.startswith((b"GIF87a", b"GIF89a")):
        return _pair(head, 6, 2, "little")
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp_size(head)
    if head.startswith(b"\xff\xd8"):
        size = _jpeg_size(head)
        return _jpeg_size(decode_head(data, _JPEG_BYTES)) if size == (None, None) else size
    return None, None


def decode_head(data: str, size: int) -> bytes:
    """Return the first bytes of base64 data, at most `size`; nothing where it is not base64."""
    chars = data[: -(-size // 3) * 4]
    try:
        return base64.b64decode(chars[: len(chars) // 4 * 4])[:size]
    except (binascii.Error, ValueError):
        return b""


def _pair(head: bytes, start: int, width: int, order: Literal["big", "little"]) -> tuple[int, int] | tuple[None, None]:
    """Return two numbers of `width` bytes that follow each other."""
    if len(head) < start + 2 * width:
        return None, None
    first = int.from_bytes(head[start : start + width], order)
    return first, int.from_bytes(head[start + width : start + 2 * width], order)


def _webp_size(head: bytes) -> tuple[int, int] | tuple[None, None]:
    """Read one of the three kinds of chunk that a WebP begins with (RFC 9649)."""
    kind = head[12:16]
    if len(head) < 30:  # noqa: PLR2004 - where the longest of the three headers ends
        return None, None
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width = int.from_bytes(head[26:28], "little")
        height = int.from_bytes(head[28:30], "little")
        return width & 0x3FFF, height & 0x3FFF
    return None, None


def _jpeg_size(head: bytes) -> tuple[int, int] | tuple[None, None]:
    """Walk a JPEG's segments to the start of the frame."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:  # noqa: PLR2004 - what each marker begins with
        marker = head[at + 1]
        if marker in _JPEG_FRAMES:
            height = int.from_bytes(head[at + 5 : at + 7], "big")
            return int.from_bytes(head[at + 7 : at + 9], "big"), height
        if marker == 0xFF:  # noqa: PLR2004 - a fill byte
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None, None
