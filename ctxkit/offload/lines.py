"""One record as one line of JSON, with its number, key and checksum as the last key.

    {...the body..., "_ctxkit":{"k":"<key>","n":17,"c":"9ae0daaf"}}

grep, jq and AgentScope read such a line as they read the body. Lines without that key, which somebody else wrote, are
accepted as records too. The checksum is the CRC-32 of everything before it.

A body that is too big for a line stands in a file of its own, which its line names; `"b"` is the body's size in bytes:

    {"_ctxkit_spill":"context.record-<hash>.json","_ctxkit":{"k":"<key>","b":1048577,"n":18,"c":"5bd1a3f0"}}

`"m"` tells how many more records the same call has stored behind it: without the last of them, all of them are torn.
"""

import asyncio
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, NamedTuple

from ctxkit.errors import StoreWriteError
from ctxkit.offload.store import MESSAGE, Record

OWN_KEY: Final = "_ctxkit"
"""The last key of each line that ctxkit wrote."""

_OPENING: Final = b',"_ctxkit":{"k":'
_TRAILER: Final = re.compile(
    rb',"_ctxkit":\{"k":(?P<key>"(?:[^"\\]|\\.){0,3600}"),(?:"t":"(?P<kind>[a-z0-9_]{1,40})",)?'
    rb'(?:"p":"(?P<provenance>[a-z+]{1,80})",)?(?:"b":(?P<spilled>[0-9]{1,15}),)?'
    rb'(?:"m":(?P<more>[0-9]{1,9}),)?"n":(?P<number>[0-9]{1,15}),"c":"(?P<sum>[0-9a-f]{8})"\}\}\r?'
)
"""An editor may have given every line a carriage return, of which the checksum says nothing."""
TRAILER_BYTES: Final = 4096
"""No trailer is longer than this: a key of 300 characters takes at most 3,600 bytes when all of it is escaped."""

_SPILL: Final = re.compile(rb'\{"_ctxkit_spill":"(?P<name>context\.record-[0-9a-f-]{1,120}\.json)"')
_KIND: Final = re.compile(r"[a-z0-9_]{1,40}")
_PROVENANCE: Final = re.compile(r"[a-z+]{0,80}")
_KEY_CHARS: Final = 300
_PIECE_CHARS: Final = 32_768
"""Bodies are encoded in pieces of this size, with a pause between them for other tasks."""
FOREIGN_BYTES: Final = 1 << 18
"""Longer lines of others are taken at their brackets: parsing them would hold the interpreter for too long."""


class Spill(NamedTuple):
    """Where a body is that is too big for a line."""

    name: str
    """The file, beside the log."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Line:
    """What stands on one line."""

    body: bytes
    """The JSON object without what ctxkit added; empty where only the rest was asked for."""
    number: int | None = None
    key: str | None = None
    kind: str = MESSAGE
    provenance: str = ""
    spill: Spill | None = None
    more: int = 0
    """So many lines of the same call follow."""


async def encode_all(records: Sequence[Record]) -> Sequence[tuple[bytes, Record]]:
    """Return records with what `encode` gives, with pauses for other tasks.

    Raises:
        StoreWriteError: A record cannot stand on a line.
    """
    encoded = []
    pending = 0
    for record in records:
        pending += len(record.body)
        if len(record.body) > _PIECE_CHARS:
            parts = []
            for at in range(0, len(record.body), _PIECE_CHARS):
                parts.append(_to_bytes(record.body[at : at + _PIECE_CHARS]))
                await asyncio.sleep(0)
            encoded.append((_checked(record, b"".join(parts)), record))
        else:
            encoded.append((encode(record), record))
        if pending >= _PIECE_CHARS:
            pending = 0
            await asyncio.sleep(0)
    return encoded


def encode(record: Record) -> bytes:
    """Return the body of a record as bytes that fit on a line; lone surrogates become JSON escapes.

    Raises:
        StoreWriteError: The record cannot stand on a line.
    """
    return _checked(record, _to_bytes(record.body))


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _checked(record: Record, body: bytes) -> bytes:
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


def seal(body: bytes, record: Record, number: int, *, spill: Spill | None = None, more: int = 0) -> bytes:
    """Return the line of a record, its line break included.

    Args:
        body: What `encode` returned for it; of no matter where it is spilled.
        record: The record.
        number: Its place in the log, 1-based.
        spill: The file that holds the body.
        more: How many lines of the same call follow.
    """
    extra = b"" if record.kind == MESSAGE else b'"t":"%s",' % record.kind.encode()
    if record.provenance:
        extra += b'"p":"%s",' % record.provenance.encode()
    if spill is not None:
        body = b'{"_ctxkit_spill":"%s"}' % spill.name.encode()
        extra += b'"b":%d,' % spill.size
    if more:
        extra += b'"m":%d,' % more
    head = b'%s%s%s,%s"n":%d' % (body[:-1], _OPENING, json.dumps(record.key).encode(), extra, number)
    return b'%s,"c":"%08x"}}\n' % (head, zlib.crc32(head))


def spill_name(body: bytes) -> str:
    """Return the name of the file for a body that is too big for a line: by its content, so that it is there once."""
    return f"context.record-{sha256(body).hexdigest()[:32]}.json"


def is_spill_name(name: str) -> bool:
    """Tell whether a file is one that a line may name."""
    return _SPILL.match(b'{"_ctxkit_spill":"%s"' % name.encode("ascii", "replace")) is not None


def examine(line: bytes) -> Line | None:
    """Return what `unseal` does, without the body: for indexes, which need not copy it."""
    match = _trailer(line)
    if match is None:
        return Line(body=b"") if _is_foreign(line) else None
    if zlib.crc32(memoryview(line)[: match.start("sum") - len(b',"c":"')]) != int(match["sum"], 16):
        return None
    spill = None
    if match["spilled"]:
        named = _SPILL.match(line)
        if named is None:
            return None
        spill = Spill(named["name"].decode(), int(match["spilled"]))
    try:
        key = json.loads(match["key"])
    except ValueError:
        return None  # the checksum fits, but ctxkit did not write it
    kind = match["kind"].decode() if match["kind"] else MESSAGE
    provenance = match["provenance"].decode() if match["provenance"] else ""
    return Line(b"", int(match["number"]), key, kind, provenance, spill, int(match["more"] or 0))


def unseal(line: bytes) -> Line | None:
    """Return what stands on a line (without its line break), or None where it is damaged or no record."""
    found = examine(line)
    return None if found is None else replace(found, body=bare(line))


def bare(line: bytes) -> bytes:
    """Return the body that stands on a line, unchecked."""
    match = _trailer(line)
    return line.removesuffix(b"\r") if match is None else line[: match.start()] + b"}"


def _trailer(line: bytes) -> "re.Match[bytes] | None":
    at = line.rfind(_OPENING, max(0, len(line) - TRAILER_BYTES))
    return _TRAILER.fullmatch(line, at) if at >= 0 else None


def _is_foreign(line: bytes) -> bool:
    """Tell whether somebody else wrote the line as a record; one with a trailer that does not fit is a damaged one."""
    if not (line.startswith(b"{") and line.endswith((b"}", b"}\r"))):
        return False
    if len(line) > FOREIGN_BYTES:
        return _OPENING not in line[-TRAILER_BYTES:]
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return OWN_KEY not in found
