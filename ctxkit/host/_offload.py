"""An agent's offloader: what ctxkit stores through, and the guard under which the host calls a foreign one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from agentscope.workspace import WorkspaceBase

from ctxkit import telemetry
from ctxkit.host._codec import HostCodec
from ctxkit.host._sessions import hold_of
from ctxkit.offload import MemoryStore, OffloadGuard, Store, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentscope.agent import Agent
    from agentscope.message import DataBlock, Msg, ToolResultBlock

    from ctxkit.config import OffloadConfig
    from ctxkit.offload.redact import Redactor

_NOWHERE = "nowhere: it could not be stored"
"""What the host is told where it must be given a reference and there is none."""


_memories: WeakKeyDictionary[Agent, MemoryStore] = WeakKeyDictionary()
"""The copy of what foreign offloaders took of an agent's; it stays readable when another offloader takes over."""


class GuardedOffloader:
    """A foreign offloader as the host may call it: it never raises, never hangs, and has all three methods.

    Args:
        offloader: The user's own.
        guard: Calls it.
        tell: Takes the event that says what could not be stored.
    """

    def __init__(self, offloader: object, guard: OffloadGuard, tell: Callable[..., None]) -> None:
        self.offloader = offloader
        self._guard = guard
        self._tell = tell

    async def offload_context(self, session_id: str, msgs: Sequence[Msg], **_: Any) -> str:
        """Store messages; return their reference, or words that say that there is none."""
        return self._told("messages", await self._guard.store_messages(session_id, msgs))

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock, **_: Any) -> str:
        """Store a tool result; return its reference, or words that say that there is none."""
        return self._told(f"result of {tool_result.name}", await self._guard.store_result(session_id, tool_result))

    async def offload_data_block(self, block: DataBlock) -> DataBlock:
        """Store media; return a block that points at it, or the block itself where it could not be stored."""
        stored = await self._guard.store_data("", block)
        if stored is None and self._guard.takes_media:
            self._tell(telemetry.STORE_FAILED, what="image or file", problem="it could not be stored, and so it stays")
        return stored or block

    def _told(self, what: str, stored: Stored) -> str:
        if stored.error is not None:
            self._tell(telemetry.STORE_FAILED, what=what, problem=stored.error)
        return stored.reference or _NOWHERE

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on to the user's own object."""
        return getattr(self.offloader, name)


def guard_for(
    agent: Agent, config: OffloadConfig, *, local_store: Store | None, redactor: Redactor | None = None
) -> OffloadGuard:
    """Return the guard round an agent's offloader.

    Args:
        agent: The agent.
        config: Time-out, and whether a copy is kept of what the offloader cannot give back.
        local_store: Where that copy goes; in memory where unset.
        redactor: Redacts what an offloader gets that does not do so by itself.
    """
    offloader: object | None = agent.offloader
    if isinstance(offloader, GuardedOffloader):
        offloader = offloader.offloader
    local = local_store
    if local is None and offloader is not None and config.local_copy:
        local = _memories.setdefault(agent, MemoryStore())
    guard = OffloadGuard(
        offloader,
        codec=HostCodec(),
        timeout_s=config.timeout_s,
        local=local if config.local_copy else None,
        redactor=redactor,
    )
    guard.through = partial(_store_of_owner, ref(agent), guard)
    return guard


def _store_of_owner(agent: ref[Agent], guard: OffloadGuard) -> Store | None:
    """Return the guard's store as the session's owner writes to it; None where nobody keeps the session."""
    alive = agent()
    hold = None if alive is None else hold_of(alive)
    return None if hold is None or guard.store is None else hold.store_for(guard.store)


def guard_agent(agent: Agent, guard: OffloadGuard, *, tell: Callable[..., None]) -> None:
    """Put the guard between the host and a foreign offloader.

    A workspace stays itself, or the host leaves its instructions out of the prompt; so does what stands on a store of
    ctxkit's.

    Args:
        agent: The agent.
        guard: Calls its offloader.
        tell: Takes the events that say what could not be stored.
    """
    offloader = agent.offloader
    if offloader is None or isinstance(offloader, WorkspaceBase | GuardedOffloader):
        return
    if not isinstance(getattr(offloader, "store", None), Store):
        agent.offloader = GuardedOffloader(offloader, guard, tell)
