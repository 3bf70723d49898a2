"""What each compression changed, kept in the session's store, so that it can be explained and taken back.

Beside the messages that leave stand the blocks that are shortened, as they were, and the summary layer before; one record
names them all and says where each stood.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ctxkit.errors import StoreError
from ctxkit.offload.lines import bare
from ctxkit.offload.names import fsname
from ctxkit.offload.provenance import SUMMARY as SUMMARISED
from ctxkit.offload.store import Record, read_records
from ctxkit.plan import Edit, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from ctxkit.offload.store import Entry, Store

logger = logging.getLogger("ctxkit.offload")

CHANGE: Final = "change"
"""Kind of a record that says what a compression changed and where what stood there is."""
ORIGINAL: Final = "original"
"""Kind of a record that holds blocks as they stood before a compression that shortened them; a message's JSON."""
UNDONE: Final = "undone"
"""Kind of a record that says that a compression was taken back."""

_PIECE_BYTES: Final = 32_768
"""A longer record is parsed in a thread."""
_MOST_BYTES: Final = 4 << 20
"""A longer record is left alone: what ctxkit writes has about 60 bytes for each message and 300 for each edit."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One edit as it was carried out."""

    edit: Edit
    key: str
    """Key of the record that holds the blocks as they stood; empty where they are not in the store."""
    blocks: tuple[str, ...]
    """What tells each of the blocks, as `block_name` says it."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"edit": self.edit.to_json(), "key": self.key, "blocks": list(self.blocks)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Part:
        """Return the part that `to_json` wrote."""
        return cls(edit=Edit.from_json(data["edit"]), key=str(data["key"]), blocks=tuple(data["blocks"]))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A message of the context that a compression changed."""

    id: str
    blocks: int
    """How many it had."""
    stays: bool
    """Whether it stands in the context afterwards, whole or in part."""


@dataclass(frozen=True, kw_only=True)
class StoredChange:
    """What one compression changed."""

    plan_id: str
    reason: Reason
    previous: str | None
    """The plan of the change before it, those that were taken back left out."""
    messages: tuple[Seen, ...]
    """The context that it changed, oldest message first."""
    parts: tuple[Part, ...]
    number: int = 0
    """Which part of the conversation left, as the summary layer counts them; 0 where none did."""
    layer_key: str = ""
    """Key of the record that holds the summary layer before; empty where it was a text."""
    layer_text: str = ""
    """The summary layer before, where it was a text."""
    has_layer: bool = False
    """Whether the summary layer was replaced."""
    saved: Mapping[str, Any] | None = None
    """What the agent's state held of the summary layer before."""
    media: tuple[str, ...] = ()
    """Ids of the blocks that held the bytes of their media, where records hold a URL."""

    def record(self) -> Record:
        """Return its record."""
        fields = {
            **vars(self),
            "messages": [[seen.id, seen.blocks, seen.stays] for seen in self.messages],
            "parts": [part.to_json() for part in self.parts],
        }
        return _record(CHANGE, self.plan_id, fields)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StoredChange:
        """Return the change of a record's body."""
        return cls(
            plan_id=data["plan_id"],
            reason=Reason(data["reason"]),
            previous=data["previous"],
            messages=tuple(Seen(id=one, blocks=blocks, stays=stays) for one, blocks, stays in data["messages"]),
            parts=tuple(map(Part.from_json, data["parts"])),
            number=data["number"],
            layer_key=data["layer_key"],
            layer_text=data["layer_text"],
            has_layer=data["has_layer"],
            saved=data["saved"],
            media=tuple(data["media"]),
        )


def undone_record(plan_id: str) -> Record:
    """Return the record that says that a compression was taken back."""
    return _record(UNDONE, plan_id, {"plan_id": plan_id})


def undone_key(plan_id: str) -> str:
    """Return how the key of the record begins that says that a compression was taken back."""
    return _key_start(UNDONE, plan_id)


class Changes:
    """The changes of one session, as they stood in its store when it was read.

    Args:
        store: Gives the bodies where they are asked for.
        entries: All records of the session, oldest first.
    """

    def __init__(self, store: Store, entries: Sequence[Entry]) -> None:
        self._store = store
        self._entries = {entry.key: entry for entry in entries if entry.key is not None}
        self._newest = [entry for entry in reversed(entries) if entry.kind == CHANGE]
        self._undone = {(entry.key or "").partition(":")[0] for entry in entries if entry.kind == UNDONE}

    @classmethod
    async def read(cls, store: Store, session_id: str) -> Changes:
        """List a session; no body is read.

        Raises:
            StoreReadError: The session cannot be read.
        """
        return cls(store, [entry async for entry in store.list(session_id) if entry.sequence is not None])

    def is_undone(self, plan_id: str) -> bool:
        """Whether a compression was taken back."""
        return undone_key(plan_id).removesuffix(":") in self._undone

    async def of(self, plan_id: str) -> StoredChange | None:
        """Return what a compression changed; None where that is not stored, or cannot be read."""
        start = _key_start(CHANGE, plan_id)
        entry = next((entry for entry in self._newest if (entry.key or "").startswith(start)), None)
        return None if entry is None else await self._read(entry)

    async def newest(self, most: int) -> AsyncIterator[StoredChange]:
        """Yield changes, the newest first, at most so many; whether a crash kept the last from being made is not known."""
        for entry in self._newest[:most]:
            change = await self._read(entry)
            if change is not None:
                yield change

    async def bodies(self, keys: Collection[str]) -> dict[str, str]:
        """Return the bodies of records by key; those that are not there are left out.

        Raises:
            StoreReadError: They cannot be read.
        """
        entries = [entry for key, entry in self._entries.items() if key in keys]
        entries.sort(key=lambda entry: (entry.reference, entry.sequence or 0))
        return {
            entry.key or "": bare(body).decode("utf-8", "replace")
            async for entry, body in read_records(self._store, entries)
        }

    async def _read(self, entry: Entry) -> StoredChange | None:
        if entry.size > _MOST_BYTES:
            logger.warning("record %s of kind %r is ignored: it has %s bytes", entry.sequence, entry.kind, entry.size)
            return None
        try:
            body = await self._store.get(entry.reference, entry.offset, entry.size)
            read = await asyncio.to_thread(json.loads, body) if entry.size > _PIECE_BYTES else json.loads(body)
            return StoredChange.from_json(read)
        except (StoreError, KeyError, TypeError, ValueError, RecursionError) as exc:
            logger.warning("record %s of kind %r is ignored: %r", entry.sequence, entry.kind, exc)
            return None


def block_name(kind: str, block_id: str) -> str:
    """Return what tells a block from others: a call and its result have one id."""
    return f"{kind}:{block_id}"


def block_id(name: str) -> str:
    """Return the id of the block that a name of `block_name` tells."""
    return name.partition(":")[2]


def _record(kind: str, plan_id: str, fields: Mapping[str, Any]) -> Record:
    body = json.dumps({"type": f"ctxkit.{kind}", **fields}, ensure_ascii=False)
    digest = blake2b(body.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return Record(key=f"{_key_start(kind, plan_id)}{digest}", body=body, kind=kind, provenance=SUMMARISED)


def _key_start(kind: str, plan_id: str) -> str:
    return f"{fsname(f'{kind}-{plan_id}')}:"
