"""One record as one line of JSON, with its number, key and checksum as the last key.

    {...the body..., "_ctxkit":{"k":"<key>","n":17,"c":"9ae0daaf"}}

grep, jq and AgentScope read such a line as they read the body. Lines without that key, which somebody else wrote, are
accepted as records too. The checksum is the CRC-32 of everything before it.
"""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Final

from ctxkit.errors import StoreWriteError
from ctxkit.offload.store import MESSAGE, Record

_OPENING: Final = b',"_ctxkit":{"k":'
_TRAILER: Final = re.compile(
    rb',"_ctxkit":\{"k":(?P<key>"(?:[^"\\]|\\.){0,3600}"),(?:"t":"(?P<kind>[a-z0-9_]{1,40})",)?'
    rb'(?:"p":"(?P<provenance>[a-z+]{1,80})",)?"n":(?P<number>[0-9]{1,15})'
    rb',"c":"(?P<sum>[0-9a-f]{8})"\}\}'
)
TRAILER_BYTES: Final = 4096
"""No trailer is longer than this: a key of 300 characters takes at most 3,600 bytes when all of it is escaped."""

_KIND: Final = re.compile(r"[a-z0-9_]{1,40}")
_PROVENANCE: Final = re.compile(r"[a-z+]{0,80}")
_KEY_CHARS: Final = 300
FOREIGN_BYTES: Final = 1 << 18
"""Longer lines of others are taken at their brackets: parsing them would hold the interpreter for too long."""


@dataclass(frozen=True, slots=True)
class Line:
    """What stands on one line."""

    body: bytes
    """The JSON object without what ctxkit added."""
    number: int | None = None
    key: str | None = None
    kind: str = MESSAGE
    provenance: str = ""


def encode(record: Record) -> bytes:
    """Return the body of a record as bytes that fit on a line; lone surrogates become JSON escapes.

    Raises:
        StoreWriteError: The record cannot stand on a line.
    """
    body = record.body.encode("utf-8", "backslashreplace")
    wrong = ""
    if not (body.startswith(b"{") and body.endswith(b"}")) or len(body) == len(b"{}"):
        wrong = f"its body is no JSON object with content: it starts with {record.body[:40]!r}"
    elif b"\n" in body:
        wrong = "its body has a line break: write JSON on one line"
    elif not 0 < len(record.key) <= _KEY_CHARS:
        wrong = f"a key has 1 to {_KEY_CHARS} characters"
    elif not _KIND.fullmatch(record.kind):
        wrong = f"its kind is {record.kind!r}: give a short lower-case word"
    elif not _PROVENANCE.fullmatch(record.provenance):
        wrong = f"its provenance is {record.provenance!r}: give lower-case words joined by '+'"
    if wrong:
        msg = f"Record {record.key[:80]!r} cannot be stored: {wrong}."
        raise StoreWriteError(msg)
    return body


def seal(body: bytes, record: Record, number: int) -> bytes:
    """Return the line of a record, its line break included.

    Args:
        body: What `encode` returned for it.
        record: The record.
        number: Its place in the log, 1-based.
    """
    kind = b"" if record.kind == MESSAGE else b'"t":"%s",' % record.kind.encode()
    whose = b'"p":"%s",' % record.provenance.encode() if record.provenance else b""
    head = b'%s%s%s,%s%s"n":%d' % (body[:-1], _OPENING, json.dumps(record.key).encode(), kind, whose, number)
    return b'%s,"c":"%08x"}}\n' % (head, zlib.crc32(head))


def parse_trailer(tail: bytes) -> Line | None:
    """Return number, key, kind and provenance from the last bytes of a line, unchecked and without a body."""
    at = tail.rfind(_OPENING)
    match = _TRAILER.fullmatch(tail, at) if at >= 0 else None
    if match is None:
        return None
    return _line_of(match, b"")


def unseal(line: bytes) -> Line | None:
    """Return what stands on a line (without its line break), or None where it is damaged or no record."""
    trailer_from = max(0, len(line) - TRAILER_BYTES)
    at = line.rfind(_OPENING, trailer_from)
    match = _TRAILER.fullmatch(line, at) if at >= 0 else None
    if match is None:
        return _foreign(line)
    if zlib.crc32(memoryview(line)[: match.start("sum") - len(b',"c":"')]) != int(match["sum"], 16):
        return None
    return _line_of(match, line[:at] + b"}")


def _line_of(match: re.Match[bytes], body: bytes) -> Line:
    return Line(
        body=body,
        number=int(match["number"]),
        key=json.loads(match["key"]),
        kind=match["kind"].decode() if match["kind"] else MESSAGE,
        provenance=match["provenance"].decode() if match["provenance"] else "",
    )


def _foreign(line: bytes) -> Line | None:
    if not (line.startswith(b"{") and line.endswith((b"}", b"}\r"))):
        return None
    if len(line) <= FOREIGN_BYTES:
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            return None
    return Line(body=line.removesuffix(b"\r"))
