"""The store in memory: for tests, and for agents whose context need not outlive the process."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from ctxkit.errors import RecordNotFoundError
from ctxkit.offload import lines
from ctxkit.offload.names import fsname
from ctxkit.offload.store import BLOB, Entry, Record

_SCHEME: Final = "memory:///"


@dataclass
class _Session:
    log: bytearray = field(default_factory=bytearray)
    entries: list[Entry] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """Keeps everything in this object, with the semantics of `Store` but for durability."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._blobs: dict[str, bytes] = {}

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return."""
        area = "data/" if session_id is None else f"sessions/{fsname(session_id)}/"
        if name is None:
            return f"{_SCHEME}{area}context.jsonl"
        plain = f"{_SCHEME}{area}{name}"
        if self._blobs.get(plain, data) == data:
            return plain
        stem, dot, ending = name.rpartition(".")
        digest = sha256(data).hexdigest()
        return f"{_SCHEME}{area}{stem}-{digest}{dot}{ending}" if dot else f"{plain}-{digest}"

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        """Store records at the end of a session's log and return its reference.

        Raises:
            StoreWriteError: A record is none.
        """
        reference = self.reference(session_id)
        encoded = [(lines.encode(record), record) for record in records]
        session = self._sessions.setdefault(fsname(session_id), _Session())
        for body, record in encoded:
            if record.key in session.keys:
                continue
            session.keys.add(record.key)
            entry = Entry(
                reference=reference,
                kind=record.kind,
                size=len(body),
                offset=len(session.log),
                sequence=len(session.entries) + 1,
                key=record.key,
                provenance=record.provenance,
            )
            session.entries.append(entry)
            session.log += body + b"\n"
        return reference

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        """Store a blob and return its reference."""
        reference = self.reference(session_id, name, data)
        self._blobs.setdefault(reference, bytes(data))
        return reference

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of a blob or a log.

        Raises:
            RecordNotFoundError: Nothing is stored under the reference.
        """
        area, _, name = reference.removeprefix(_SCHEME + "sessions/").partition("/")
        found: bytes | bytearray | None = self._blobs.get(reference)
        if name == "context.jsonl" and reference.startswith(_SCHEME) and area in self._sessions:
            found = self._sessions[area].log
        if found is None:
            msg = f"Nothing is stored under {reference[:300]!r}: list the session to see what is."
            raise RecordNotFoundError(msg)
        start = max(0, offset)
        return bytes(found[start:] if length is None else found[start : start + max(0, length)])

    async def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield a session's records with a sequence above `after`, then its blobs, oldest first."""
        session = self._sessions.get(fsname(session_id), _Session())
        for entry in session.entries[max(0, after) :]:
            yield entry
        folder = f"{_SCHEME}sessions/{fsname(session_id)}/"
        for reference, data in list(self._blobs.items()):
            if reference.startswith(folder):
                yield Entry(reference=reference, kind=BLOB, size=len(data), name=reference.removeprefix(folder))

    async def delete(self, session_id: str) -> None:
        """Remove all that a session owns; blobs that sessions share stay."""
        self._sessions.pop(fsname(session_id), None)
        folder = f"{_SCHEME}sessions/{fsname(session_id)}/"
        self._blobs = {reference: data for reference, data in self._blobs.items() if not reference.startswith(folder)}
