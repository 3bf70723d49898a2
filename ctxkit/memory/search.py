"""Search over what was written to memory, by words and literally."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from ctxkit.memory.entry import Flushed
from ctxkit.memory.log import MEMORY, MemoryLog
from ctxkit.offload.index import NewDoc, SessionIndex
from ctxkit.offload.render import Rendered, plain

_QUERY_CHARS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class MemoryHit:
    """A place in memory that a query found."""

    entry: Flushed
    text: str
    """The part of the entry that has it, at most 800 characters."""


class MemorySearch:
    """Finds entries of one memory; its index is made of the log at the first search and goes on from there.

    Args:
        log: The log.
    """

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._index: SessionIndex | None = None
        self._entries: dict[str, Flushed] = {}
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def search(self, query: str, k: int, *, session_id: str | None = None) -> list[MemoryHit]:
        """Return the best places, at most `k`.

        Args:
            query: Words, ids, paths, quoted phrases; no operators.
            k: Most hits, at least 1.
            session_id: Only entries of this session; `None` for all.

        Raises:
            StoreReadError: The store failed.
        """
        async with self._alone():
            index = await self._refreshed()
        wanted = plain(query.strip()[:_QUERY_CHARS])
        found = await asyncio.to_thread(index.search, wanted, words=True, literal=True)
        hits = [MemoryHit(entry=self._entries[hit.doc.name], text=hit.body.strip()) for hit in found]
        return [hit for hit in hits if session_id is None or hit.entry.session_id == session_id][: max(1, k)]

    async def _refreshed(self) -> SessionIndex:
        known = {key: entry for key, entry in (await self._log.look()).items() if entry.kind == MEMORY}
        if self._index is None or not self._entries.keys() <= known.keys():
            # The first time, or the log was deleted and perhaps begun anew.
            self._index, self._entries = await asyncio.to_thread(SessionIndex), {}
        new = [entry for key, entry in known.items() if key not in self._entries]
        documents = []
        for entry, body in zip(new, await self._log.bodies(new), strict=True):
            name = str(entry.key)
            self._entries[name] = Flushed.from_json(body)
            documents.append(_document(name, body, entry.sequence or 0))
        await asyncio.to_thread(self._index.add, documents)
        return self._index

    def _alone(self) -> asyncio.Lock:
        """Return the lock of the running event loop: a memory may live through several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = (loop, asyncio.Lock())
        return self._lock[1]


def _document(name: str, body: Any, sequence: int) -> NewDoc:
    entry = Flushed.from_json(body)
    text = entry.daily if entry.memory == entry.daily else f"{entry.daily}\n\n{entry.memory}"
    return NewDoc(name=name, rendered=Rendered(plain(text), [(0, entry.path)]), sequence=sequence, key=name)
