"""`MemoryMiddleware`: writes to memory what leaves an agent's context, and fills its system prompt."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from agentscope.middleware import MiddlewareBase

from ctxkit import telemetry
from ctxkit.config import MemoryConfig
from ctxkit.errors import ConfigError, CtxkitError
from ctxkit.host._attached import attached_to
from ctxkit.host._memories import Memories, store_of
from ctxkit.host._memory_tool import INSTRUCTIONS, MemoryAccess, SearchMemory, register
from ctxkit.host._tasks import OwnedTasks
from ctxkit.host.context_config import settings_of
from ctxkit.memory import LOG_NAME, Leaving, Memory, MemoryWriter
from ctxkit.sessions.lanes import PROCESS_LANES

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from agentscope.agent import Agent
    from agentscope.message import Msg
    from agentscope.tool import ToolBase

    from ctxkit.engine.hooks import AfterCompression
    from ctxkit.memory import Flushed
    from ctxkit.offload import Store

    _Place = tuple[str, str, str]
    """A block of a context: id of its message, its type (a call and its result have one id), its id."""

logger = logging.getLogger("ctxkit")


class MemoryMiddleware(MiddlewareBase):
    """Gives agents a memory: a diary of what leaves their contexts, a tool to search it, and files in the system prompt.

    It needs a `CompressionMiddleware` beside it, which tells it what leaves; without one it searches, and fills the
    prompt. One instance may serve many agents. Entries are written in the background, and no reply waits for them: what
    is to be written is on disk before the reply goes on, and is written at the next start where a crash comes between.
    Close it when its agents are done (`async with`, or `aclose()`).

    Args:
        directory: Below it are `memory/YYYY-MM-DD.md` and the bootstrap files; the directory of the agent's own
            workspace where neither this nor `store` is given.
        store: Where memory is kept; in `directory` where unset. With a store alone there are no files.
        model: Who writes: a chat model of AgentScope's, or a function from a prompt to a text, a mapping in OpenAI's or
            Claude's shape, a generator or an awaitable of these. `SummaryConfig.model` where unset, or the agent's own.
        name: The session of the store that is the memory; users who must not read each other's need a name each.
        context_summary_callback: Called with each `Flushed` when it is written; awaited if it can be.
        config: Wins over the `memory` section of the agents' own config.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        model: Any = None,
        name: str = LOG_NAME,
        context_summary_callback: Callable[[Flushed], Any] | None = None,
        config: MemoryConfig | None = None,
    ) -> None:
        if model is not None and not callable(model):
            msg = f"MemoryMiddleware.model is {model!r}: give a chat model of AgentScope's, a function, or None."
            raise ConfigError(msg)
        self._memories = Memories(
            directory, store, model=model, name=name, callback=context_summary_callback, config=config
        )
        self._tasks = OwnedTasks()
        self._access: WeakKeyDictionary[Agent, MemoryAccess] = WeakKeyDictionary()
        self._resumed: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        self._unnoted: WeakKeyDictionary[Agent, list[Leaving]] = WeakKeyDictionary()
        """What left and could not be noted, for the next try."""
        self._remembered: WeakKeyDictionary[Agent, frozenset[_Place]] = WeakKeyDictionary()
        """Blocks of each agent's context that are in memory already, so that they are not written twice."""
        self._remembered_as: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        """The id of the entry that has them."""
        self._written_as: WeakKeyDictionary[Agent, dict[str, str]] = WeakKeyDictionary()
        """Plans of which all was in memory before they took it away, and the entry that has it."""

    async def list_tools(self) -> list[ToolBase]:
        """Return `search_memory`, which AgentScope's service asks for; elsewhere it is registered at the first reply."""
        return [SearchMemory()]

    async def memory_of(self, agent: Agent) -> Memory:
        """Return the memory of an agent that has this middleware: search it, or listen to what is written."""
        return await self._memories.of(agent)

    async def remember(self, agent: Agent, messages: Sequence[Msg] | None = None) -> Flushed | None:
        """Write messages to memory now, and wait for it; the context stays as it is.

        Args:
            agent: An agent that has this middleware.
            messages: Messages of its context; all of it where unset. The same ones are written once, and not again by
                this middleware when they leave the context.

        Returns:
            What was written; `None` where there is nothing to write.

        Raises:
            StoreError: It could not be stored.
        """
        chosen = tuple(agent.state.context if messages is None else messages)
        if not chosen:
            return None
        ids = "\n".join(f"{message.id} {len(message.content)}" for message in chosen)
        digest = blake2b(ids.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
        memory, session_id = await self.memory_of(agent), agent.state.session_id
        known = self._remembered.get(agent, frozenset())
        blocks = frozenset((message.id, block.type, block.id) for message in chosen for block in message.content)
        await memory.leave(Leaving(id=digest, session_id=session_id, agent=agent.name, messages=chosen))
        still_there = {message.id for message in agent.state.context}
        self._remembered_as[agent] = digest
        self._remembered[agent] = blocks | {block for block in known if block[0] in still_there}
        async with PROCESS_LANES.enter(_lane(session_id)):
            return await memory.write(digest, await self._memories.writer_of(agent))

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Give the agent the tool, and go on with what an earlier process left unwritten."""
        try:
            await self._begin(agent)
        except Exception:
            logger.exception("ctxkit could not open the memory of agent %r", agent.name)
        inner = next_handler()
        try:
            async for item in inner:
                yield item
        finally:
            await inner.aclose()

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Return the prompt with the bootstrap files and how to use memory; the same bytes until a file changes."""
        try:
            bootstrap = await self._memories.bootstrap_of(agent)
            files = await bootstrap.text(agent.state.session_id, agent.name)
        except Exception:
            logger.exception("ctxkit could not add to the system prompt of agent %r", agent.name)
            return current_prompt
        parts = (current_prompt, files, INSTRUCTIONS if bootstrap.config.search_tool else "")
        return "\n\n".join(part for part in parts if part)

    async def after_compression(self, agent: Agent, record: AfterCompression) -> None:
        """Note durably what left the context, and begin to write it; called by ctxkit."""
        known = self._remembered.get(agent, frozenset())
        taken = tuple(message for message in record.taken if _is_worth(message, known))
        if record.taken and not taken and agent in self._remembered_as:
            self._written_as.setdefault(agent, {})[record.receipt.plan_id] = self._remembered_as[agent]
        if not taken or not self._memories.config_of(agent).flush:
            return
        memory = await self.memory_of(agent)
        leaving = Leaving(
            id=record.receipt.plan_id,
            session_id=record.session_id,
            agent=record.agent,
            messages=taken,
            store=await store_of(agent),
            keys=record.keys if len(taken) == len(record.taken) else (),
        )
        work = partial(self._left, agent, memory, leaving, await self._memories.writer_of(agent))
        # Whoever is cancelled leaves, and a store that hangs is left behind; what left the context is noted all the same.
        task = self._start(agent, work, "note", plan_id=leaving.id)
        await asyncio.wait({task}, timeout=settings_of(agent.context_config).offload.timeout_s)

    async def summary_of(self, agent: Agent, plan_id: str) -> str | None:
        """Return what memory has of what a compression took out of an agent's context; None while it is being written."""
        identifier = self._written_as.get(agent, {}).get(plan_id, plan_id)
        entry = await (await self.memory_of(agent)).flushed(identifier)
        return None if entry is None else entry.memory

    def after_overflow(self, agent: Agent) -> None:
        """Begin to write the whole context to memory, where the config wants that; called by ctxkit."""
        if self._memories.config_of(agent).on_overflow:
            self._start(agent, partial(self.remember, agent), "overflow")

    async def aclose(self) -> None:
        """Wait for entries that are being written, as long as the config allows; the rest is written at the next start."""
        await self._tasks.finish(self._memories.patience_s)
        await self._tasks.aclose()
        await self._memories.aclose()

    async def __aenter__(self) -> Self:
        """Return the middleware itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    async def _begin(self, agent: Agent) -> None:
        config, memory = self._memories.config_of(agent), await self.memory_of(agent)
        if config.search_tool:
            access = self._access.get(agent)
            if access is None or access.memory is not memory:
                access = self._access[agent] = MemoryAccess(agent, memory, config.search_hits)
            await register(agent, access)
        session_id = agent.state.session_id
        if config.flush and self._resumed.get(agent) != session_id:
            self._resumed[agent] = session_id
            writer = await self._memories.writer_of(agent)
            self._start(agent, partial(self._resume, agent, memory, writer), "resume")

    async def _resume(self, agent: Agent, memory: Memory, writer: MemoryWriter) -> None:
        """Write what an earlier process, or an earlier try, has left."""
        while unnoted := self._unnoted.get(agent):
            await memory.leave(unnoted[0])
            del unnoted[0]
        session_id = agent.state.session_id
        for identifier in await memory.unfinished(session_id):
            async with PROCESS_LANES.enter(_lane(session_id)):
                await memory.write(identifier, writer)

    async def _left(self, agent: Agent, memory: Memory, leaving: Leaving, writer: MemoryWriter) -> None:
        """Note what left, and start to write it."""
        try:
            await memory.leave(leaving)
        except Exception:
            self._unnoted.setdefault(agent, []).append(leaving)
            raise
        self._start(agent, partial(self._written, agent, memory, leaving, writer), "write", plan_id=leaving.id)

    async def _written(self, agent: Agent, memory: Memory, leaving: Leaving, writer: MemoryWriter) -> None:
        async with PROCESS_LANES.enter(_lane(leaving.session_id)):
            entry = await memory.write(leaving.id, writer)
        attached = attached_to(agent)
        if entry is not None and attached is not None:
            names = ("path", "is_extractive", "input_tokens", "output_tokens")
            about = {name: getattr(entry, name) for name in names}
            attached.engine.tell_later(telemetry.MEMORY_WRITTEN, plan_id=entry.id, **about)

    def _start(
        self, agent: Agent, work: Callable[[], Awaitable[Any]], name: str, *, plan_id: str | None = None
    ) -> asyncio.Task[None]:
        """Start work whose failure stops nobody: it is told, and tried again."""

        async def quietly() -> None:
            try:
                await work()
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
                self._trouble(agent, exc, plan_id=plan_id)

        return self._tasks.start(quietly(), name=f"ctxkit-memory-{name}-{agent.name}")

    def _trouble(self, agent: Agent, error: Exception, *, plan_id: str | None = None) -> None:
        """Tell that something is not in memory yet; what was noted is tried again at the next reply, or the next start."""
        self._resumed.pop(agent, None)
        unforeseen = None if isinstance(error, CtxkitError) else error
        logger.warning("the memory of agent %r is not up to date: %s", agent.name, error, exc_info=unforeseen)
        attached = attached_to(agent)
        if attached is not None:
            attached.engine.tell_later(telemetry.MEMORY_FAILED, plan_id=plan_id, problem=str(error))


def _is_worth(message: Msg, known: frozenset[_Place]) -> bool:
    """Whether a message has something to remember that is not in memory yet; thinking is nothing."""
    places = ((message.id, block.type, block.id) for block in message.content)
    return any(place not in known and place[1] != "thinking" for place in places)


def _lane(session_id: str) -> str:
    """Return the lane on which entries of a session are written one after another."""
    return f"memory:{session_id}"
