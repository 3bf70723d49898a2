"""The store in memory: for tests, and for agents whose context need not outlive the process."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from ctxkit.errors import RecordNotFoundError
from ctxkit.offload import lines
from ctxkit.offload.capabilities import Lease
from ctxkit.offload.fenced import FencedStore
from ctxkit.offload.files.blobs import check_blob_name, names_for
from ctxkit.offload.files.epochs import refuse_stale
from ctxkit.offload.files.log_index import LOG_NAME
from ctxkit.offload.memory_lease import MemoryLeases
from ctxkit.offload.names import fsname
from ctxkit.offload.search import PIECE_BYTES, Needle
from ctxkit.offload.store import BLOB, Entry, Record, Store

_SCHEME: Final = "memory:///"


@dataclass
class _Session:
    log: bytearray = field(default_factory=bytearray)
    entries: list[Entry] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """Keeps everything in this object, with the semantics of `Store` but for durability, and with all capabilities.

    Args:
        clock: Seconds that only grow, by which leases run out.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions: dict[str, _Session] = {}
        self._blobs: dict[str, bytes] = {}
        self._epochs: dict[str, int] = {}
        self._leases = MemoryLeases(clock)

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand what `append` (no name) or `put` (a name) will return.

        Raises:
            StoreWriteError: The name is not allowed.
        """
        folder = _folder(session_id)
        if name is None:
            return f"{folder}{LOG_NAME}"
        check_blob_name(name)
        names = (f"{folder}{one}" for one in names_for(name, sha256(data).hexdigest()))
        return next(one for one in names if self._blobs.get(one, data) == data)

    async def append(self, session_id: str, records: Sequence[Record], *, epoch: int | None = None) -> str:
        """Store records at the end of a session's log and return its reference.

        Raises:
            StoreWriteError: A record is none.
            StaleOwnerError: A higher epoch has been fenced.
        """
        reference = self.reference(session_id)
        encoded = await lines.encode_all(records)
        self._check(session_id, epoch)
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

    async def put(self, session_id: str | None, name: str, data: bytes, *, epoch: int | None = None) -> str:
        """Store a blob and return its reference.

        Raises:
            StoreWriteError: The name is not allowed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        check_blob_name(name)
        self._check(session_id, epoch)
        reference = self.reference(session_id, name, data)
        self._blobs.setdefault(reference, bytes(data))
        return reference

    async def put_chunks(
        self, session_id: str | None, name: str, chunks: AsyncIterable[bytes], *, epoch: int | None = None
    ) -> str:
        """Store chunks as one blob and return its reference; here all of it has to be in memory.

        Raises:
            StoreWriteError: The name is not allowed.
            StaleOwnerError: A higher epoch has been fenced.
        """
        check_blob_name(name)
        data = bytearray()
        async for chunk in chunks:
            data += chunk
        return await self.put(session_id, name, bytes(data), epoch=epoch)

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of a blob or a log.

        Raises:
            RecordNotFoundError: Nothing is stored under the reference.
        """
        area, _, name = reference.removeprefix(_SCHEME + "sessions/").partition("/")
        found: bytes | bytearray | None = self._blobs.get(reference)
        if name == LOG_NAME and reference.startswith(_SCHEME) and area in self._sessions:
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
        for blob in self._blobs_of(session_id):
            yield blob

    async def search(self, session_id: str, text: str) -> AsyncIterator[Entry]:
        """Yield the records, newest first, then the blobs whose content has a text; see `Searches.search`."""
        session = self._sessions.get(fsname(session_id), _Session())
        needle = Needle(text)
        for entry in reversed(session.entries):
            await asyncio.sleep(0)
            if needle.is_on_line(bytes(session.log[entry.offset : entry.offset + entry.size])):
                yield entry
        for blob in reversed(self._blobs_of(session_id)):
            await asyncio.sleep(0)
            data = self._blobs[blob.reference]
            if needle.is_in(data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)):
                yield blob

    async def delete(self, session_id: str, *, epoch: int | None = None) -> None:
        """Remove all that a session owns; blobs that sessions share stay, and so does the number of a fence.

        Raises:
            StaleOwnerError: A higher epoch has been fenced.
        """
        self._check(session_id, epoch)
        self._sessions.pop(fsname(session_id), None)
        folder = _folder(session_id)
        self._blobs = {reference: data for reference, data in self._blobs.items() if not reference.startswith(folder)}

    async def fence(self, session_id: str, epoch: int) -> Store:
        """Refuse all lower epochs in a session from now on; see `Fences.fence`.

        Raises:
            StaleOwnerError: A higher epoch has been fenced already.
        """
        self._check(session_id, epoch)
        self._epochs[fsname(session_id)] = epoch
        return FencedStore(self, session_id, epoch)

    async def lease(
        self, session_id: str, *, owner: Mapping[str, str | int], ttl_s: float, timeout_s: float = 0.0
    ) -> Lease:
        """Take a session, among the tasks of this event loop; see `Leases.lease`.

        Raises:
            SessionLockedError: Another owner held it all the time; the message names it.
        """
        return await self._leases.take(
            session_id,
            owner=owner,
            ttl_s=ttl_s,
            timeout_s=timeout_s,
            above=lambda: self._epochs.get(fsname(session_id), 0),
        )

    def _check(self, session_id: str | None, epoch: int | None) -> None:
        if session_id is not None and epoch is not None:
            refuse_stale(session_id, epoch, self._epochs.get(fsname(session_id), 0))

    def _blobs_of(self, session_id: str) -> Sequence[Entry]:
        folder = _folder(session_id)
        return [
            Entry(reference=reference, kind=BLOB, size=len(data), name=reference.removeprefix(folder))
            for reference, data in self._blobs.items()
            if reference.startswith(folder)
        ]


def _folder(session_id: str | None) -> str:
    return f"{_SCHEME}data/" if session_id is None else f"{_SCHEME}sessions/{fsname(session_id)}/"
