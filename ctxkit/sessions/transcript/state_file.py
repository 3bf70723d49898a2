"""The file of a saved state: AgentScope's `AgentState` as JSON, with what the index says of it as the last key.

    {"session_id":"3f2a",...,"context":[
    {...a message...}
    ],...,"_ctxkit":{"version":1,"transcript":[812,2774181],"sessionId":"3f2a","updatedAt":1708000000000,...}}

AgentScope passes over that key, so `AgentState.model_validate_json(path.read_text())` loads the file without ctxkit.
"""

import json
import os
from dataclasses import astuple, dataclass
from typing import Any, Final

from ctxkit.errors import NewerFormatError
from ctxkit.offload.directory import Directory, read_at
from ctxkit.sessions.encoding import decode_state
from ctxkit.sessions.rows import row_from_json, row_to_json
from ctxkit.sessions.store import SessionEntry
from ctxkit.sessions.transcript.file import START, Mark

VERSION: Final = 1
SUFFIX: Final = ".state.json"

_KEY: Final = "_ctxkit"
_OPENING: Final = b',"_ctxkit":'
_TAIL_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Trailer:
    """What stands beside the state in its file."""

    row: SessionEntry | None = None
    """`None` where somebody else wrote the file."""
    transcript: Mark = START
    """End of the transcript when the state was saved: what stands behind it belongs to a save that did not end."""


def write_state(folder: Directory, name: str, state: bytes, trailer: Trailer) -> None:
    """Put a state durably in the place of the one before.

    Args:
        folder: The directory.
        name: Name of the file.
        state: What `encode_state` returned.
        trailer: What stands beside it.
    """
    extra: dict[str, Any] = {"version": VERSION, "transcript": astuple(trailer.transcript)}
    if trailer.row is not None:
        extra |= row_to_json(trailer.row)
    between = _OPENING if state != b"{}" else _OPENING[1:]
    folder.replace(name, b"%s%s%s}" % (state[:-1], between, json.dumps(extra, separators=(",", ":")).encode()))


def read_bytes(folder: Directory, name: str) -> bytes:
    """Return a whole file.

    Raises:
        FileNotFoundError: There is none.
    """
    descriptor = folder.open(name, os.O_RDONLY)
    try:
        data = bytearray()
        while chunk := read_at(descriptor, _CHUNK_BYTES, len(data)):
            data += chunk
        return bytes(data)
    finally:
        os.close(descriptor)


def parse_state(data: bytes, *, where: str) -> tuple[dict[str, Any], Trailer]:
    """Return the state and what stands beside it.

    Args:
        data: The content of the file.
        where: Its path, for messages.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
        ValueError: It is no JSON object.
    """
    state = decode_state(data)
    return state, _trailer(state.pop(_KEY, None), where=where)


def read_trailer(folder: Directory, name: str) -> Trailer:
    """Return what stands beside a state, from the end of the file alone where that is enough.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
        FileNotFoundError: There is no such file.
        ValueError: It is no JSON object.
    """
    descriptor = folder.open(name, os.O_RDONLY)
    try:
        tail = read_at(descriptor, _TAIL_BYTES, max(0, os.fstat(descriptor).st_size - _TAIL_BYTES))
    finally:
        os.close(descriptor)
    where = str(folder.path / name)
    _, found, last = tail.rpartition(_OPENING)
    if found and last.endswith(b"}}"):
        try:
            # Text has its quotes escaped, and a key of that name deeper inside has more brackets behind it.
            return _trailer(json.loads(last[:-1]), where=where)
        except (ValueError, RecursionError):
            pass  # not the last key after all: read it the long way
    return parse_state(read_bytes(folder, name), where=where)[1]


def _trailer(raw: object, *, where: str) -> Trailer:
    if not isinstance(raw, dict):
        return Trailer()
    version = raw.get("version")
    if isinstance(version, int) and version > VERSION:
        msg = (
            f"The saved state {where!r} has format {version!r}, and this ctxkit knows formats up to {VERSION}: a newer "
            "one wrote it. Update ctxkit; the file was not touched."
        )
        raise NewerFormatError(msg)
    try:
        row = row_from_json(raw)
    except ValueError:
        row = None
    return Trailer(row=row, transcript=_mark_from_json(raw.get("transcript")))


def _mark_from_json(raw: object) -> Mark:
    match raw:
        case [int() as end, int() as crc] if end > 0:
            return Mark(end, crc)
        case _:
            return START
