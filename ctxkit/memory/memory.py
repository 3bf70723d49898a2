"""`Memory`: what left contexts, written down once and durably, and found again."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ctxkit.memory.daily import DailyFiles
from ctxkit.memory.entry import Flushed, Leaving, day_and_clock, now
from ctxkit.memory.flush import MemoryWriter
from ctxkit.memory.log import DONE, LEAVING, LEFT, MEMORY, MemoryLog
from ctxkit.memory.search import MemoryHit, MemorySearch
from ctxkit.offload import StoreOffloader, fsname, read_records
from ctxkit.offload.lines import bare
from ctxkit.offload.offloader import told_keys
from ctxkit.offload.redact import DEFAULT_REDACTOR, Redactor

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.offload import Store
    from ctxkit.port import Codec

logger = logging.getLogger("ctxkit.memory")

LOG_NAME: Final = "ctxkit-memory"
"""The session of the store in which a memory is, unless it is told another one."""

OVERDUE_S: Final = 900.0
"""What other sessions have left unwritten for so long is nobody's any more: a summary's deadline has passed by far."""


class Memory:
    """One memory, which any number of agents, sessions and processes may share.

    Each entry goes through three records in the store: what is to be written (`leave`), the entry, and that it is done.
    A crash at any point loses nothing and writes nothing twice: `write`, asked again, goes on where it stopped.

    Args:
        store: Where it is kept.
        codec: Writes and reads the host's messages.
        directory: Below it are the daily files `memory/YYYY-MM-DD.md` for people; `None` for none.
        time_zone: IANA name of the zone that says which day it is; the machine's own where unset.
        name: The session of the store that is the memory; give users of one store a name each to keep them apart.
        redactor: Returns a text without secrets, for all that is stored; `None` for storing everything as it is.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        store: "Store",
        codec: "Codec",
        *,
        directory: str | None = None,
        time_zone: str | None = None,
        name: str = LOG_NAME,
        redactor: Redactor | None = DEFAULT_REDACTOR,
        clock: Callable[[], float] = now,
    ) -> None:
        self.store = store
        self._codec = codec
        self._files = None if directory is None else DailyFiles(directory)
        self._time_zone = time_zone
        self._log = MemoryLog(store, name)
        self._search = MemorySearch(self._log)
        self._redactor = redactor
        self._clock = clock
        self._listeners: list[Callable[[Flushed], Any]] = []

    def listen(self, callback: Callable[[Flushed], Any]) -> None:
        """Tell a function of each entry that is written from now on; what it returns is awaited if it can be.

        After a crash it may be told of the same entry again. What it raises is logged.
        """
        self._listeners.append(callback)

    async def leave(self, leaving: Leaving) -> None:
        """Note durably that something is to be written; a second time changes nothing.

        Raises:
            StoreWriteError: It could not be stored.
        """
        log, keys = leaving.session_id, leaving.keys
        if leaving.store is not self.store or not keys:
            with told_keys() as told:
                offloader = StoreOffloader(self.store, self._codec, redactor=self._redactor)
                await offloader.offload_context(self._log.name, leaving.messages, kind=LEFT)
            log, keys = self._log.name, tuple(told)
        about = {"id": leaving.id, "session_id": leaving.session_id, "agent": leaving.agent, "at": self._clock()}
        await self._log.add(LEAVING, leaving.id, {**about, "log": log, "keys": keys})

    async def unfinished(self, session_id: str) -> list[str]:
        """Return the ids of what was left and is not written yet, oldest first.

        Args:
            session_id: The session; of other ones only what nobody can be writing any more.

        Raises:
            StoreReadError: The store failed.
        """
        known = await self._log.look()
        done = {key for key, entry in known.items() if entry.kind == DONE}
        waiting = [e for e in known.values() if e.kind == LEAVING and _done_key(str(e.key)) not in done]
        bodies = await self._log.bodies(waiting)
        overdue = self._clock() - OVERDUE_S
        return [str(body["id"]) for body in bodies if body["session_id"] == session_id or body["at"] < overdue]

    async def write(self, identifier: str, writer: MemoryWriter) -> Flushed | None:
        """Write what was left under an id, once.

        Args:
            identifier: The id that `leave` was given.
            writer: Makes the texts, where that was not done before.

        Returns:
            The entry; `None` where there is nothing to be written, because its session was deleted since.

        Raises:
            StoreError: The store or the file failed; asked again, it goes on from there.
            ConfigError: The redactor failed.
        """
        entry = await self.flushed(identifier) or await self._made(identifier, writer)
        if await self._log.find(DONE, identifier) is not None:
            return entry
        if entry is not None:
            if self._files is not None:
                await self._files.append(entry, fsname(identifier))
            await self._tell(entry)
        await self._log.add(DONE, identifier, {"id": identifier})
        return entry

    async def flushed(self, identifier: str) -> Flushed | None:
        """Return what was written of what left under an id, also by another process; `None` where nothing is yet.

        Raises:
            StoreReadError: The store failed.
        """
        body = await self._log.find(MEMORY, identifier)
        return None if body is None else Flushed.from_json(body)

    async def search(self, query: str, k: int = 8, *, session_id: str | None = None) -> list[MemoryHit]:
        """Return the places in memory that a query finds, best first, also of sessions that were cleared since.

        Args:
            query: Words, ids, paths, quoted phrases; no operators, any text is allowed.
            k: Most hits, at least 1.
            session_id: Only what this session wrote; `None` for all.

        Raises:
            StoreReadError: The store failed.
        """
        return await self._search.search(query, k, session_id=session_id)

    async def _made(self, identifier: str, writer: MemoryWriter) -> Flushed | None:
        """Make the entry and store it; where somebody else was faster, theirs holds."""
        about = await self._log.find(LEAVING, identifier)
        messages = [] if about is None else await self._messages(str(about["log"]), about["keys"])
        if about is None or not messages:
            return None
        written = await writer.write(messages)
        if written.failures:
            logger.warning("on the way to memory: %s", "; ".join(written.failures))
        # In a thread: a zone may be read from a file.
        day, clock = await asyncio.to_thread(day_and_clock, about["at"], self._time_zone)
        entry = Flushed(
            id=identifier,
            session_id=about["session_id"],
            agent=about["agent"],
            at=about["at"],
            day=day,
            clock=clock,
            daily=written.daily,
            memory=written.memory,
            is_extractive=written.is_extractive,
            input_tokens=0 if written.usage is None else written.usage.input_tokens,
            output_tokens=0 if written.usage is None else written.usage.output_tokens,
        )
        await self._log.add(MEMORY, identifier, entry.to_json())
        return await self.flushed(identifier)

    async def _messages(self, log: str, keys: Sequence[str]) -> "list[Msg]":
        """Return messages that are stored; one that can no longer be read is left out."""
        wanted = set(keys)
        entries = [e async for e in self.store.list(log) if e.key in wanted]
        found: list[Msg] = []
        async for entry, body in read_records(self.store, entries):
            try:
                found.append(self._codec.load(bare(body).decode("utf-8", "replace")))
                await asyncio.sleep(0)
            except ValueError:
                logger.warning("record %s of %r is no message, and is not written to memory", entry.sequence, log)
        return found

    async def _tell(self, entry: Flushed) -> None:
        for callback in tuple(self._listeners):
            try:
                answer = callback(entry)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                logger.exception("a listener of memory raised")


def _done_key(key: str) -> str:
    return f"{DONE}{key.removeprefix(LEAVING)}"
