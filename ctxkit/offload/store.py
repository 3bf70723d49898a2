"""The store: four methods on bytes under which everything that leaves a context is kept."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol, runtime_checkable

from ctxkit.offload.names import fsname

BLOB: Final = "blob"
"""Kind of an entry that is a blob, not a record."""

MESSAGE: Final = "message"
"""Kind of a record that is a message of the host, as its own JSON."""

_BATCH_BYTES: Final = 1 << 20
"""Records that stand side by side are fetched together up to this many bytes."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One thing to remember in order."""

    key: str
    """What makes it the same record: storing a key twice is storing it once. At most 300 characters."""
    body: str
    """A JSON object on one line, not empty."""
    kind: str = MESSAGE
    """What the body is, a short lower-case word; only `message` bodies are the host's."""
    provenance: str = ""
    """Whose words stand in it, lower-case words joined by `+` (see `ctxkit.offload.provenance`); empty where nobody said."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a store lists: one record or one blob of a session."""

    reference: str
    """What `Store.get` takes."""
    kind: str
    """The record's kind, or `"blob"`."""
    size: int
    """Bytes."""
    offset: int = 0
    """Byte at which the record begins in what `reference` names; 0 for a blob."""
    sequence: int | None = None
    """Place of a record in its session, 1-based and ascending; `None` for a blob."""
    key: str | None = None
    """The record's key; `None` for a blob and for a record that somebody else wrote."""
    name: str | None = None
    """The blob's name; `None` for a record."""
    created: float | None = None
    """Seconds since the epoch, where the store knows."""
    provenance: str = ""
    """The record's provenance; empty for a blob and where nobody said."""


@runtime_checkable
class Store(Protocol):
    """Keeps records and blobs by session; an own back end implements these methods and nothing else.

    What every store promises:

    - **Durable**: what `append` or `put` has returned for survives the death of the process, and of the machine where
      the back end can promise that.
    - **Atomic**: a record or blob is there whole or not at all, and so are the records of one call, whenever the process
      dies.
    - **Idempotent**: the same key, or the same content under the same name, is stored once, however often and from
      however many tasks or processes it is sent. So a call that failed, timed out or was cancelled is simply repeated.
    - **In order**: records of a session keep the order in which `append` accepted them, and those of one call stand in
      the order given. Nothing that was accepted is ever rewritten.
    - **Contained**: any text is a valid session id, and no two of them share content.
    - **Visible**: what was accepted is seen by every later `list` and `get`, also from another process.
    - **Errors**: `StoreWriteError`, `StoreReadError`, `RecordNotFoundError`, naming what, where and why; nothing else.
    - **Cancellation** leaves at once; the record or blob may or may not have been stored, wholly.
    """

    def reference(self, session_id: str | None, name: str | None = None, data: bytes = b"") -> str:
        """Return beforehand the reference that `append` (no name) or `put` (a name) will return.

        With a name it may look at what is stored, on the calling thread, so call it away from the event loop.
        """
        ...

    async def append(self, session_id: str, records: Sequence[Record]) -> str:
        """Store records at the end of a session's log and return the log's reference.

        Raises:
            StoreWriteError: The records could not be stored; those of one call are stored all or none.
        """
        ...

    async def put(self, session_id: str | None, name: str, data: bytes) -> str:
        """Store a blob and return its reference.

        The same content under the same name gives the same reference; other content gives another reference, with a
        hash of the content in it, and leaves the first one alone.

        Args:
            session_id: The session that owns the blob; `None` for blobs that sessions share, which are named by content.
            name: Letters, digits, `.`, `_`, `~` and `-`, starting and ending with a letter or digit, at most 200
                characters; not starting with `context.` or `context-`.
            data: The content.

        Raises:
            StoreWriteError: The blob could not be stored, or the name is not allowed.
        """
        ...

    async def get(self, reference: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of a blob or a log.

        Args:
            reference: What `append`, `put` or `list` gave; anything else is not found, so no path leads outside.
            offset: First byte, 0-based; behind the end gives no bytes.
            length: Most bytes to return; `None` for all.

        Raises:
            RecordNotFoundError: Nothing is stored under the reference.
            StoreReadError: It is there but cannot be read.
        """
        ...

    def list(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """List a session: its records with a sequence above `after` in order, then all its blobs, oldest first.

        `get(entry.reference, entry.offset, entry.size)` returns the body of a record as one JSON object; a store may
        have added a last key `_ctxkit` to it. Records of one session may stand under several references, one after
        another or in between. An unknown session is empty.

        Raises:
            StoreReadError: The session cannot be read.
        """
        ...


def record_key(identifier: str, body: str) -> str:
    """Return the key of a body: the id that it belongs to and 128 bits of the hash of its content."""
    digest = blake2b(body.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return f"{fsname(identifier)}:{digest}"


async def read_records(store: Store, entries: Iterable[Entry]) -> AsyncIterator[tuple[Entry, bytes]]:
    """Yield the bodies of listed records, neighbours fetched together.

    Args:
        store: The store that listed them.
        entries: Entries of records, in the order of the list.

    Yields:
        Each entry and its body.
    """
    group: list[Entry] = []
    for entry in entries:
        if group and (
            entry.reference != group[0].reference or entry.offset + entry.size - group[0].offset > _BATCH_BYTES
        ):
            for pair in await _read_group(store, group):
                yield pair
            group = []
        group.append(entry)
    for pair in await _read_group(store, group) if group else []:
        yield pair


async def _read_group(store: Store, group: Sequence[Entry]) -> Sequence[tuple[Entry, bytes]]:
    start = group[0].offset
    data = await store.get(group[0].reference, start, group[-1].offset + group[-1].size - start)
    return [(entry, data[entry.offset - start : entry.offset - start + entry.size]) for entry in group]
