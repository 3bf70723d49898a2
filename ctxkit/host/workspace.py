"""`LocalWorkspace`: AgentScope's own, with an offload that survives crashes, many writers and hostile ids."""

from __future__ import annotations

import copy
import logging
import warnings
from typing import TYPE_CHECKING, Any

from agentscope.workspace import LocalWorkspace as HostWorkspace

from ctxkit.errors import StoreError
from ctxkit.host._codec import HostCodec
from ctxkit.offload import FileStore, StoreOffloader, is_guarded
from ctxkit.offload.redact import DEFAULT_REDACTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import DataBlock, Msg, ToolResultBlock

    from ctxkit.offload.redact import Redactor

logger = logging.getLogger("ctxkit")

_MISSING = (
    "AgentScope itself has compressed a context into this workspace: CompressionMiddleware is not installed. "
    "Pass it to the agent: Agent(..., middlewares=[CompressionMiddleware()])."
)
_warned: set[str] = set()
"""Warnings that this process has given already."""


class LocalWorkspace(HostWorkspace):
    """AgentScope's `LocalWorkspace` on a durable store.

    Constructor, tools, skills, MCP servers and instructions are the host's. What leaves a context goes to `store`, in
    the host's layout below `workdir` (`sessions/`, `data/`), before and after `initialize()` alike; the offload methods
    raise `StoreWriteError` where that fails.

    Args:
        workdir: The directory of the workspace.
        redactor: Returns a text without secrets, for all that is stored; `None` for storing everything as it is.
        **kwargs: The host's other arguments.
    """

    def __init__(self, *, workdir: str, redactor: Redactor | None = DEFAULT_REDACTOR, **kwargs: Any) -> None:
        super().__init__(workdir=workdir, **kwargs)
        self.store = FileStore(self.workdir)
        self.redactor = redactor
        """What redacts; ctxkit's own has `counts`."""
        self._durable = StoreOffloader(self.store, HostCodec(), media_url=_workspace_url, redactor=redactor)

    async def offload_context(self, session_id: str, msgs: Sequence[Msg], **kwargs: Any) -> str:
        """Store messages in the session's `context.jsonl` and return its path; those it has are not stored again."""
        if not is_guarded() and _MISSING not in _warned:
            _warned.add(_MISSING)
            warnings.warn(_MISSING, UserWarning, stacklevel=2)
        return await self._durable.offload_context(session_id, msgs, **kwargs)

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock, **kwargs: Any) -> str:
        """Store a tool result as `tool_result-{id}.txt` and return its path."""
        return await self._durable.offload_tool_result(session_id, tool_result, **kwargs)

    async def offload_data_block(self, block: DataBlock, **kwargs: Any) -> DataBlock:
        """Store media as `data/{sha256}.{ext}` and return a copy of the block with its `workspace:` URL."""
        return await self._durable.offload_data_block(block)

    async def purge_session(self, *, agent_id: str, session_id: str) -> None:
        """Drop everything that this workspace holds for one session, and nothing else, whatever the id looks like."""
        host = copy.copy(self)
        # The host joins the id to a path and deletes what is there: its part here is the MCP servers only.
        host._backend = _KeepingBackend(self._backend)  # type: ignore[assignment]  # noqa: SLF001 - no public twin; canary in tests/host
        forget = getattr(super(LocalWorkspace, host), "purge_session", None)
        if forget is not None:  # older hosts have none
            await forget(agent_id=agent_id, session_id=session_id)
        try:
            await self.store.delete(session_id)
        except StoreError:
            logger.warning("session %r could not be deleted", session_id, exc_info=True)


class _KeepingBackend:
    """The host's backend, but for deletions, which do nothing."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def delete_path(self, path: str) -> None:
        """Delete nothing."""


def _workspace_url(reference: str) -> str:
    """Return the URL by which the host's front ends find a file of the workspace."""
    return f"workspace:///data/{reference.replace(chr(92), '/').rpartition('/')[2]}"
