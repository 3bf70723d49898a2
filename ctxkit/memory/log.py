"""The log of a memory in its store: what is to be written, what was written, and that it stands in its file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxkit.offload import BLOB, Entry, Record, Store, fsname, read_records
from ctxkit.offload.lines import bare

LEAVING: Final = "leaving"
"""Kind of a record that says what is to be written to memory."""
LEFT: Final = "left"
"""Kind of a record that is a message of it, where no other log has it."""
MEMORY: Final = "memory"
"""Kind of a record that is an entry."""
DONE: Final = "done"
"""Kind of a record that says that an entry stands in its file, or that there is nothing to write."""


class MemoryLog:
    """The records of one memory, known by their keys; what other processes append is seen at each look.

    Args:
        store: Where it is.
        name: The session of the store that is the log.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._entries: dict[str, Entry] = {}
        self._newest: Entry | None = None

    async def look(self) -> Mapping[str, Entry]:
        """Return all records by key, oldest first, those of the messages included.

        Raises:
            StoreReadError: The store failed.
        """
        newest = self._newest
        after = 0 if newest is None or newest.sequence is None else max(0, newest.sequence - 1)
        found = [e async for e in self.store.list(self.name, after=after) if e.kind != BLOB]
        if newest is not None and not (found and (found[0].sequence, found[0].key) == (newest.sequence, newest.key)):
            self._entries, self._newest = {}, None  # it was deleted, and perhaps begun anew
            return await self.look() if after else {}
        for entry in found:
            if entry.key is not None:
                self._entries.setdefault(entry.key, entry)
            self._newest = entry
        return self._entries

    async def add(self, kind: str, identifier: str, body: Mapping[str, Any]) -> None:
        """Append a record, once for each kind and id, whoever comes first.

        Raises:
            StoreWriteError: The store failed.
        """
        text = json.dumps({"type": kind, **body}, ensure_ascii=False)
        await self.store.append(self.name, [Record(key=key_of(kind, identifier), body=text, kind=kind)])

    async def find(self, kind: str, identifier: str) -> Mapping[str, Any] | None:
        """Return the body of a record, or None where there is none.

        Raises:
            StoreReadError: The store failed.
        """
        entry = (await self.look()).get(key_of(kind, identifier))
        return None if entry is None else (await self.bodies([entry]))[0]

    async def bodies(self, entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
        """Return the bodies of records, in order.

        Raises:
            StoreReadError: The store failed.
        """
        return [json.loads(bare(body)) async for _, body in read_records(self.store, entries)]


def key_of(kind: str, identifier: str) -> str:
    """Return the key of the one record of a kind that an id has."""
    return f"{kind}-{fsname(identifier)}"
