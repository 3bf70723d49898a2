"""The agents that a CompressionMiddleware serves: of each its engine, and where in a reply it is."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from ctxkit.engine import Engine
from ctxkit.host import _compat
from ctxkit.host._codec import HostCodec
from ctxkit.host._hint import TrueHint
from ctxkit.host._offload import guard_agent, guard_for
from ctxkit.host._port import HostPort
from ctxkit.host._window import WindowGuard
from ctxkit.host.context_config import settings_of
from ctxkit.offload.redact import redactor_of
from ctxkit.tokens import load_counter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentscope.agent import Agent

    from ctxkit.engine.hooks import AfterCompression
    from ctxkit.offload import Store
    from ctxkit.tokens import Counter

logger = logging.getLogger("ctxkit")

_owners: WeakKeyDictionary[Agent, Attachments] = WeakKeyDictionary()
"""Which middleware's agents include an agent: a second one in its list must not compress a second time."""


class Attached:
    """What the hooks share about one agent while it lives; nothing of it needs to survive a restart.

    Args:
        engine: The agent's engine.
        offloader: The offloader that the engine's guard was made for.
    """

    def __init__(self, engine: Engine, *, offloader: object) -> None:
        self.engine = engine
        self.offloader = offloader
        self.window = WindowGuard()
        self.hint = TrueHint()
        self.preparing: asyncio.Task[None] | None = None
        """The task that last prepared a summary for the agent."""
        self._stepping: asyncio.Task[object] | None = None
        self._tools: list[str] = []

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """The host's own loop runs in the current task; what the consumer of its events does lies outside."""
        before, self._stepping = self._stepping, asyncio.current_task()
        try:
            yield
        finally:
            self._stepping = before

    @contextmanager
    def acting(self, tool: str) -> Iterator[None]:
        """A tool runs; what it calls is not the host's loop."""
        self._tools.append(tool)
        try:
            yield
        finally:
            self._tools.remove(tool)

    @property
    def is_automatic(self) -> bool:
        """Whether a call of `compress_context` made now comes from the host's own loop."""
        return not self._tools and self._stepping is not None and self._stepping is asyncio.current_task()

    @property
    def is_preparing(self) -> bool:
        """Whether a summary is being prepared for the agent; what a closed event loop left behind is not."""
        task = self.preparing
        return task is not None and not task.done() and not task.get_loop().is_closed()

    def is_in_tool(self, name: str) -> bool:
        """Whether a tool of this name runs now."""
        return name in self._tools


class Attachments:
    """The agents of one middleware, each attached at its first hook and kept no longer than it lives.

    Args:
        local_store: Where a copy goes of what an offloader cannot give back; in memory where unset.
    """

    def __init__(self, *, local_store: Store | None = None) -> None:
        self.local_store = local_store
        self._agents: WeakKeyDictionary[Agent, Attached] = WeakKeyDictionary()

    def get(self, agent: Agent) -> Attached | None:
        """Return what is known of an agent, if it is attached."""
        return self._agents.get(agent)

    async def attach(self, agent: Agent) -> Attached | None:
        """Return what is known of an agent, made at the first hook; None where ctxkit cannot serve it."""
        attached = self._agents.get(agent)
        if attached is not None and attached.offloader is agent.offloader:
            return attached
        if _owners.setdefault(agent, self) is not self:
            logger.warning("agent %r has two CompressionMiddlewares; the second one does nothing", agent.name)
            return None
        try:
            counter = await load_counter()
            # No await from here on: two hooks of one agent at once must not make two engines.
            return self._attached_now(agent, counter)
        except Exception:
            logger.exception("ctxkit cannot serve agent %r, which runs without it", agent.name)
            return None

    def _attached_now(self, agent: Agent, counter: Counter) -> Attached:
        """Return what is known of an agent, made or brought up to date with the offloader that it has now."""
        attached = self._agents.get(agent)
        if attached is not None and attached.offloader is agent.offloader:
            return attached
        local = self.local_store
        if local is None and attached is not None and agent.offloader is not None:
            local = attached.engine.guard.store  # so that what was stored before can still be read back
        settings = settings_of(agent.context_config)
        guard = guard_for(agent, settings.offload, local_store=local, redactor=redactor_of(settings.privacy))
        if attached is None:
            engine = Engine(HostPort(agent), HostCodec(), counter=counter, guard=guard)
            engine.listeners = (partial(_tell_middlewares, ref(agent)),)
            engine.overflow_listeners = (partial(_tell_overflow, ref(agent)),)
            attached = self._agents[agent] = Attached(engine, offloader=None)
        else:
            attached.engine.store_through(guard)
        guard_agent(agent, guard, tell=attached.engine.tell_later)
        attached.offloader = agent.offloader
        return attached


def attached_to(agent: Agent) -> Attached | None:
    """Return what is known of an agent that some CompressionMiddleware serves; None before its first hook."""
    owner = _owners.get(agent)
    return None if owner is None else owner.get(agent)


async def _tell_middlewares(agent: ref[Agent], record: AfterCompression) -> None:
    """Tell an agent's other middlewares of a compression, those that have `after_compression(agent, record)`."""
    alive = agent()
    for middleware in () if alive is None else _compat.middlewares_of(alive):
        tell = getattr(middleware, "after_compression", None)
        if callable(tell):
            answer = tell(alive, record)
            if inspect.isawaitable(answer):
                await answer


async def summaries_for(agent: Agent, plan_ids: Sequence[str]) -> dict[str, str]:
    """Return what an agent's other middlewares have of what plans took away: those that have `summary_of(agent, plan_id)`."""
    found: dict[str, str] = {}
    for middleware in _compat.middlewares_of(agent):
        summary_of = getattr(middleware, "summary_of", None)
        if not callable(summary_of):
            continue
        for plan_id in plan_ids:
            text = await summary_of(agent, plan_id)
            if text is not None:
                found[plan_id] = text
    return found


def _tell_overflow(agent: ref[Agent]) -> None:
    """Tell an agent's other middlewares that a request of its was refused, those that have `after_overflow(agent)`."""
    alive = agent()
    for middleware in () if alive is None else _compat.middlewares_of(alive):
        tell = getattr(middleware, "after_overflow", None)
        if callable(tell):
            tell(alive)
