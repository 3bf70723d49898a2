"""`MemoryMiddleware`: writes to memory what leaves an agent's context, and fills its system prompt."""

from __future__ import annotations

import asyncio
import logging
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
    from collections.abc import AsyncGenerator, Callable, Sequence

    from agentscope.agent import Agent
    from agentscope.message import Msg
    from agentscope.tool import ToolBase

    from ctxkit.engine.hooks import AfterCompression
    from ctxkit.memory import Flushed
    from ctxkit.offload import Store

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
        model: Who writes: a chat model of AgentScope's, or a function from a prompt to a response (a text, a generator of
            chunks, a mapping in OpenAI's or Claude's shape, or an awaitable of these). `SummaryConfig.model` where unset,
            or the agent's own.
        name: The session of the store that is the memory; users of one store who must not read each other's memory need a
            name each, and a middleware each.
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
            messages: Messages of its context; all of it where unset. The same ones are written once.

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
        await memory.leave(Leaving(id=digest, session_id=session_id, agent=agent.name, messages=chosen))
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
        # Thinking alone is nothing to remember.
        is_worth = any(block.type != "thinking" for message in record.taken for block in message.content)
        if not is_worth or not self._memories.config_of(agent).flush:
            return
        memory = await self.memory_of(agent)
        leaving = Leaving(
            id=record.receipt.plan_id,
            session_id=record.session_id,
            agent=record.agent,
            messages=tuple(record.taken),
            store=await store_of(agent),
            keys=record.keys,
        )
        work = self._left(agent, memory, leaving, await self._memories.writer_of(agent))
        # Whoever is cancelled leaves, and a store that hangs is left behind; what left the context is noted all the same.
        task = self._tasks.start(work, name=f"ctxkit-memory-note-{agent.name}")
        await asyncio.wait({task}, timeout=settings_of(agent.context_config).offload.timeout_s)

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
            work = self._resume(agent.name, session_id, memory, await self._memories.writer_of(agent))
            self._tasks.start(work, name=f"ctxkit-memory-resume-{agent.name}")

    async def _resume(self, agent: str, session_id: str, memory: Memory, writer: MemoryWriter) -> None:
        """Write what an earlier process has left."""
        try:
            for identifier in await memory.unfinished(session_id):
                async with PROCESS_LANES.enter(_lane(session_id)):
                    await memory.write(identifier, writer)
        except CtxkitError as exc:
            logger.warning("the memory of agent %r could not be brought up to date: %s", agent, exc)
        except Exception:
            logger.exception("the memory of agent %r could not be brought up to date", agent)

    async def _left(self, agent: Agent, memory: Memory, leaving: Leaving, writer: MemoryWriter) -> None:
        """Note what left, and start to write it."""
        attached = attached_to(agent)
        tell = None if attached is None else attached.engine.tell_later
        try:
            await memory.leave(leaving)
        except CtxkitError as exc:
            logger.warning("what left the context of agent %r is not noted for memory: %s", agent.name, exc)
            if tell is not None:
                tell(telemetry.MEMORY_FAILED, plan_id=leaving.id, problem=str(exc))
            return
        work = self._written(agent, memory, leaving, writer, tell)
        self._tasks.start(work, name=f"ctxkit-memory-{agent.name}")

    async def _written(
        self, agent: Agent, memory: Memory, leaving: Leaving, writer: MemoryWriter, tell: Callable[..., None] | None
    ) -> None:
        """Write an entry that nobody waits for; what fails is tried again at the next reply or the next start."""
        try:
            async with PROCESS_LANES.enter(_lane(leaving.session_id)):
                entry = await memory.write(leaving.id, writer)
        except Exception as exc:
            self._resumed.pop(agent, None)
            if isinstance(exc, CtxkitError):
                logger.warning("nothing was written to memory for agent %r yet: %s", leaving.agent, exc)
            else:
                logger.exception("nothing was written to memory for agent %r yet", leaving.agent)
            if tell is not None:
                tell(telemetry.MEMORY_FAILED, plan_id=leaving.id, problem=str(exc))
            return
        if entry is not None and tell is not None:
            cost = {"input_tokens": entry.input_tokens, "output_tokens": entry.output_tokens}
            tell(telemetry.MEMORY_WRITTEN, plan_id=entry.id, path=entry.path, is_extractive=entry.is_extractive, **cost)


def _lane(session_id: str) -> str:
    """Return the lane on which entries of a session are written one after another."""
    return f"memory:{session_id}"
