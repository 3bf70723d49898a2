"""The memories of a MemoryMiddleware's agents: where each is kept, who writes to it, and what stands in the prompt."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ctxkit.config import MemoryConfig
from ctxkit.errors import ConfigError
from ctxkit.host import _compat
from ctxkit.host._codec import HostCodec
from ctxkit.host._port import HostModel, window_of
from ctxkit.host.context_config import settings_of
from ctxkit.memory import Bootstrap, CallableModel, Memory, MemoryWriter
from ctxkit.offload import FileStore, MemoryStore
from ctxkit.offload.redact import redactor_of
from ctxkit.tokens import count_text, load_counter

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from agentscope.agent import Agent

    from ctxkit.memory import Flushed
    from ctxkit.offload import Store
    from ctxkit.port import ModelPort

logger = logging.getLogger("ctxkit")


class Memories:
    """The memories of some agents, each made at its first use and kept no longer than its agents live.

    Args:
        directory: Where files are; that of the agent's own store where neither this nor `store` is given.
        store: Where memory is kept; in `directory` where unset.
        model: Who writes; see `MemoryMiddleware`.
        name: The session of the store that is the memory.
        callback: Told of each entry that is written.
        config: Wins over the agents' own.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None,
        store: Store | None,
        *,
        model: Any,
        name: str,
        callback: Callable[[Flushed], Any] | None,
        config: MemoryConfig | None,
    ) -> None:
        self._directory = None if directory is None else str(Path(directory).absolute())
        self._own_store = FileStore(self._directory) if self._directory is not None and store is None else None
        self._store = store if store is not None else self._own_store
        self._model = model
        self._name = name
        self._callback = callback
        self._config = config
        self._memories: WeakKeyDictionary[Agent, Memory] = WeakKeyDictionary()
        self._bootstraps: WeakKeyDictionary[Agent, Bootstrap] = WeakKeyDictionary()

    @property
    def patience_s(self) -> float:
        """Seconds for which closing may wait: the longest of all agents'."""
        configs = [self.config_of(agent) for agent in list(self._memories)] or [self._config or MemoryConfig()]
        return max(config.close_timeout_s for config in configs)

    def config_of(self, agent: Agent) -> MemoryConfig:
        """Return an agent's config."""
        return self._config or settings_of(agent.context_config).memory

    async def of(self, agent: Agent) -> Memory:
        """Return an agent's memory; agents of one store share it."""
        store = await self._store_for(agent)
        known = self._memories.get(agent)
        if known is not None and (store is None or known.store is store):
            return known
        shared = next((memory for memory in self._memories.values() if memory.store is store), None)
        if shared is None:
            shared = self._made(agent, store)
        self._memories[agent] = shared
        return shared

    async def bootstrap_of(self, agent: Agent) -> Bootstrap:
        """Return what fills an agent's system prompt."""
        config, known = self.config_of(agent), self._bootstraps.get(agent)
        if known is None or known.config != config:
            directory = self._directory_for(await self._store_for(agent))
            known = self._bootstraps[agent] = Bootstrap(directory, config)
        return known

    async def writer_of(self, agent: Agent) -> MemoryWriter:
        """Return what writes for an agent: with the middleware's model, the summaries', or the agent's own."""
        settings = settings_of(agent.context_config)
        own = HostModel(agent.model, window=window_of(agent))
        chosen: Any = self._model if self._model is not None else settings.summary.model
        model: ModelPort = own
        if chosen is not None:
            is_hosts = hasattr(chosen, "generate_structured_output")
            model = HostModel(chosen) if is_hosts else CallableModel(chosen, context_size=own.context_size)
        counter = await load_counter()

        async def count(text: str) -> int:
            return await count_text(text, counter)

        return MemoryWriter(
            model=model,
            codec=HostCodec(),
            config=settings.summary,
            max_tokens=self.config_of(agent).max_tokens,
            count=count,
            redactor=redactor_of(settings.privacy),
        )

    async def aclose(self) -> None:
        """Close the store that was made here; one that was given is its owner's to close."""
        if self._own_store is not None:
            await self._own_store.aclose()

    def _made(self, agent: Agent, store: Store | None) -> Memory:
        if store is None or (isinstance(store, MemoryStore) and self._store is None):
            logger.warning(
                "agent %r has no store on a disk, so its memory lasts as long as this process: give MemoryMiddleware a directory",
                agent.name,
            )
        memory = Memory(
            MemoryStore() if store is None else store,
            HostCodec(),
            directory=self._directory_for(store),
            time_zone=self.config_of(agent).time_zone,
            name=self._name,
            redactor=redactor_of(settings_of(agent.context_config).privacy),
        )
        if self._callback is not None:
            memory.listen(self._callback)
        return memory

    async def _store_for(self, agent: Agent) -> Store | None:
        return self._store if self._store is not None else await store_of(agent)

    def _directory_for(self, store: Store | None) -> str | None:
        """Return where the files are: the directory given, or that of the agent's own store."""
        if self._directory is not None or self._store is not None:
            return self._directory
        return str(store.root) if isinstance(store, FileStore) else None


async def store_of(agent: Agent) -> Store | None:
    """Return the store into which what leaves an agent's context goes; `None` where there is none."""
    for middleware in _compat.middlewares_of(agent):
        engine_of = getattr(middleware, "engine_of", None)
        if callable(engine_of):
            try:
                store: Store | None = (await engine_of(agent)).guard.store
            except ConfigError:
                break  # ctxkit cannot serve it, and has said why
            return store
    return getattr(agent.offloader, "store", None)
