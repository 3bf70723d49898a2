"""`SessionMiddleware`: saves an agent's state after each reply, and gives it back to the agent that goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from weakref import WeakKeyDictionary, WeakSet

from agentscope.event import ModelCallEndEvent, ReplyEndEvent
from agentscope.message import Msg
from agentscope.middleware import MiddlewareBase
from agentscope.state import AgentState

from ctxkit import telemetry
from ctxkit.errors import ConfigError
from ctxkit.host import _compat, _sessions
from ctxkit.host._session_agent import AgentSession, Keeping
from ctxkit.host._session_profile import session_settings
from ctxkit.host.context_config import settings_of
from ctxkit.host.events import ContextEvent, context_event
from ctxkit.sessions import COMPRESSION_GRACE_S, SessionLocks, maintain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

    from agentscope.agent import Agent
    from agentscope.tool import ToolChunk, ToolResponse

    from ctxkit.host._session_restore import Restored, RestoreRule
    from ctxkit.offload.capabilities import Deletes
    from ctxkit.sessions import MaintenanceReport, Retention, SessionStore

logger = logging.getLogger("ctxkit.sessions")

_MAINTENANCE_EVERY_S: Final = 3600.0
_SIGNS_IN_A_HOLD: Final = 4
"""So often a running tool gives a sign of life within the limit of a hold."""


class SessionMiddleware(MiddlewareBase):
    """Saves the sessions of agents, so that another process goes on where this one ends.

    Give it to an agent as its first middleware. A session is `agent.state.session_id`; what is saved is AgentScope's own
    `AgentState`. It is loaded at the first reply, or by `attach`, and saved after each reply, when a reply waits for a
    person, and before each compression takes something out of the context. While a reply runs, the session is locked:
    a second agent waits for it or is told who holds it.

    One instance may serve many agents. Close it when they are done (`async with`, or `aclose()`). In AgentScope's
    service, which keeps sessions itself, it does nothing.

    Args:
        store: Where sessions are saved.
        restore: What a new agent is given: the `whole` context, or the `texts` of its newest turns.
        max_turns: Turns that the application allows a context; `texts` gives the newest `max(3, max_turns // 6)`.
        locks: What makes one owner of a session; `"own"` for ones of this instance, closed with it, and a mapping for such
            ones with these arguments of `SessionLocks`; `None` where nobody else can have the session.
        retention: Which old sessions are removed, looked at after a reply, at most once an hour; `None` for none.
        also: A store of what has left the contexts, from which a session goes together with its saved state.
        agent_id: Whose sessions they are, for the index.
        delivery: Where the answers go (channel, peer, thread), for the index, unless the session knows better; what the
            session's id says of it where unset and the id is a `SessionKey`.
        timeout_s: Seconds that loading a session before a reply, and saving it after one, may take.

    Raises:
        ConfigError: A setting that cannot work.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        restore: RestoreRule = "whole",
        max_turns: int = 20,
        locks: SessionLocks | Mapping[str, Any] | Literal["own"] | None = "own",
        retention: Retention | None = None,
        also: Deletes | None = None,
        agent_id: str = "main",
        delivery: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if restore not in {"whole", "texts"}:
            msg = f"restore is {restore!r}: use 'whole' or 'texts'"
            raise ConfigError(msg)
        if max_turns < 1:
            msg = f"max_turns is {max_turns!r}: use a number of turns, at least 1"
            raise ConfigError(msg)
        if timeout_s <= 0:
            msg = f"timeout_s is {timeout_s!r}: use seconds above 0"
            raise ConfigError(msg)
        times = {} if locks == "own" else locks
        self._own_locks = SessionLocks(**times) if isinstance(times, Mapping) else None
        self._keeping = Keeping(
            store=store,
            locks=self._own_locks if isinstance(times, Mapping) else times,
            rule=restore,
            max_turns=max_turns,
            agent_id=agent_id,
            delivery=dict(delivery or {}),
            timeout_s=timeout_s,
        )
        self._retention = retention
        self._also = also
        self._agents: WeakKeyDictionary[Agent, AgentSession] = WeakKeyDictionary()
        self._left_alone: WeakSet[Agent] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()
        self._maintained_at = float("-inf")

    @classmethod
    def profile(cls, name: str, store: SessionStore, **overrides: Any) -> Self:
        """Return a middleware with a system's settings of sessions, for example `SessionMiddleware.profile("openclaw", store)`.

        Args:
            name: A profile, as `ContextConfig.profile` takes it.
            store: Where sessions are saved.
            **overrides: Arguments of this class that win over the profile's. `retention` and `locks` as mappings are merged
                with the profile's field by field.

        Raises:
            ConfigError: There is no such profile, or a setting that cannot work.
        """
        return cls(store, **session_settings(name, overrides))

    async def attach(self, agent: Agent) -> Restored | None:
        """Give an agent what is saved of its session, now and not at its first reply.

        The agent's state is changed in place. An agent that has a context of its own keeps it: what is newer stays.

        Args:
            agent: An agent that has this middleware.

        Returns:
            What came of it; None where nothing was saved, or the agent has it already.

        Raises:
            SessionLockedError: Another owner holds the session; the message names it.
            NewerFormatError: A newer ctxkit has saved it.
            StoreError: It cannot be read.
        """
        session = self._session_of(agent)
        if session is None:
            return None
        async with session.owned("attach", nested=True):
            restored = await session.refresh()
            if session.is_new:
                await self._save(session)
            return restored

    async def save(self, agent: Agent) -> None:
        """Save an agent's state as it is now, for example after `agent.observe(...)`.

        Raises:
            SessionLockedError: Another owner holds the session.
            StoreError: It could not be saved; the state saved before stays.
        """
        session = self._session_of(agent)
        if session is None:
            return
        is_replying = session.is_busy
        async with session.owned("save", nested=True):
            await session.refresh()
            if not is_replying:
                session.note_observed()
            await session.save()

    def delivery(self, agent: Agent, delivery: Mapping[str, str]) -> None:
        """Say where an agent's answers go; the index has it from the next save on."""
        session = self._session_of(agent)
        if session is not None:
            session.deliver_to(delivery)

    async def maintain(self) -> MaintenanceReport | None:
        """Remove old sessions now, or report them, as `retention` says.

        Returns:
            What went and what stays for now; None without a retention.

        Raises:
            StoreReadError: The sessions cannot be listed.
        """
        if self._retention is None:
            return None
        self._maintained_at = time.monotonic()
        in_use = {session.session_id for session in self._agents.values()}
        return await maintain(self._keeping.store, self._retention, in_use=in_use, also=self._also)

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Own the session for the reply, load it where that is due, and save it at the end.

        Raises:
            SessionLockedError: Another owner holds the session.
            NewerFormatError: A newer ctxkit has saved it, and going on would write over it.
        """
        session = self._session_of(agent)
        if session is None:
            async for item in next_handler():
                yield item
            return
        async with session.owned("reply", is_hook=True):
            await session.refresh_if_possible()
            session.note_observed()
            if session.is_new:
                await self._save(session)  # so that it is listed while its first reply runs
            async with aclosing(self._reply(session, next_handler())) as items:
                async for item in items:
                    yield item
        self._maintain_later(session)

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Give a sign of life; what is stored from here on bears this owner's number."""
        session = self._agents.get(agent)
        if session is not None:
            await session.fence_offload()
            await session.touch()
        async for item in next_handler():
            yield item

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[ToolChunk | ToolResponse, None]:
        """Keep the hold alive while a tool runs, however long it takes; its result is stored under this owner's number."""
        session = self._agents.get(agent)
        if session is not None:
            await session.fence_offload()  # a reply that goes on with a call has no reasoning before it
        async with self._alive(session):
            async for chunk in next_handler():
                yield chunk

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]
    ) -> None:
        """Own the session while somebody compresses by hand, and save what came of it.

        Raises:
            SessionLockedError: Another owner holds the session.
        """
        session = self._session_of(agent)
        if session is None or session.is_busy:
            await next_handler()
            return
        async with session.owned("compression"):
            await session.refresh_if_possible()
            await session.fence_offload()
            session.extend(_compression_s(agent))
            await next_handler()
            await self._save(session)

    async def aclose(self) -> None:
        """Wait for what still runs, let go of all sessions and close the store; what was saved stays."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._own_locks is not None:
            await self._own_locks.aclose()
        await self._keeping.store.aclose()

    async def __aenter__(self) -> Self:
        """Return the middleware itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    def _session_of(self, agent: Agent) -> AgentSession | None:
        """Return an agent's session; None where it is not for this middleware to keep, which is logged once."""
        session = self._agents.get(agent)
        if session is not None and session.is_of(agent):
            return session
        if agent in self._left_alone:
            return None
        why = self._why_not(agent)
        if why is not None:
            self._left_alone.add(agent)
            logger.warning("the session of agent %r is not saved: %s", agent.name, why)
            return None
        session = self._agents[agent] = AgentSession(agent, self._keeping)
        _sessions.register(agent, session)
        return session

    def _why_not(self, agent: Agent) -> str | None:
        if not isinstance(agent.state, AgentState):
            return f"its state is {type(agent.state).__name__}, not AgentState"
        if _compat.is_in_service(agent):
            return "it runs in AgentScope's service, which saves it itself"
        other = _sessions.hold_of(agent)
        if isinstance(other, AgentSession) and other.keeping is not self._keeping:
            return "another SessionMiddleware of the agent saves it"
        return None

    async def _reply(self, session: AgentSession, inner: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Pass a reply on; it is saved before its end is told, and in any case when it is left."""
        is_saved = False
        try:
            async for item in inner:
                await self._notice(session, item)
                is_end = isinstance(item, ReplyEndEvent | Msg)
                if is_end and not is_saved:
                    await self._save(session)
                is_saved = is_end
                if is_end:
                    for event in self._events(session):
                        yield event
                yield item
                if not is_end:
                    for event in self._events(session):
                        yield event
        finally:
            await inner.aclose()
            if not is_saved:
                await self._save(session)

    async def _notice(self, session: AgentSession, item: object) -> None:
        """Take what passes for a sign of life; while a compression runs, the hold lasts as long as that may take."""
        if isinstance(item, ModelCallEndEvent):
            session.measured(item.input_tokens + item.output_tokens)
        if isinstance(item, ContextEvent) and item.name == telemetry.STARTED:
            session.extend(_compression_s(session.agent))
        elif not (isinstance(item, ContextEvent) and item.name == telemetry.PROGRESS):
            await session.touch()

    def _events(self, session: AgentSession) -> list[ContextEvent]:
        reply_id = session.agent.state.reply_id
        return [context_event(name, value, reply_id=reply_id) for name, value in session.take_events()]

    async def _save(self, session: AgentSession) -> None:
        """Save in a task of its own, which a cancellation does not end but a time-out does."""
        task = self._own(self._save_in_time(session), f"ctxkit-save-{session.session_id}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _save_in_time(self, session: AgentSession) -> None:
        try:
            async with asyncio.timeout(self._keeping.timeout_s):
                await session.save_if_possible()
        except TimeoutError:
            problem = f"saving took more than {self._keeping.timeout_s:g} s"
            logger.warning("session %r could not be saved: %s", session.session_id, problem)
            session.tell(telemetry.SESSION_SAVE_FAILED, problem=problem)

    def _maintain_later(self, session: AgentSession) -> None:
        """Look after old sessions where that was not done for an hour; nobody waits for it."""
        if self._retention is not None and time.monotonic() - self._maintained_at > _MAINTENANCE_EVERY_S:
            self._maintained_at = time.monotonic()
            self._own(self._maintain(session), "ctxkit-session-maintenance")

    async def _maintain(self, session: AgentSession) -> None:
        try:
            report = await self.maintain()
        except Exception:
            logger.exception("old sessions could not be looked after")
            return
        if report is not None and (report.removed or report.delayed):
            logger.info("maintenance of sessions: %s", report.to_json())
            session.tell(telemetry.MAINTENANCE, **report.to_json())

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @asynccontextmanager
    async def _alive(self, session: AgentSession | None) -> AsyncIterator[None]:
        """Give signs of life while the body runs."""
        locks = self._keeping.locks
        if session is None or locks is None:
            yield
            return
        signs = asyncio.create_task(_give_signs(session, locks.max_hold_s / _SIGNS_IN_A_HOLD), name="ctxkit-hold-alive")
        try:
            yield
        finally:
            signs.cancel()


async def _give_signs(session: AgentSession, every_s: float) -> None:
    while True:
        await session.touch()
        await asyncio.sleep(every_s)


def _compression_s(agent: Agent) -> float:
    """Return for how long a compression of an agent may hold its session."""
    return settings_of(agent.context_config).summary.timeout_s + COMPRESSION_GRACE_S
