"""`search_memory`: the tool by which an agent finds what was written to memory, also by sessions that are over.

Agents that share a toolkit share the tool; each call finds its own agent's memory by the state that the host injects.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from agentscope.message import ToolResultState

from ctxkit.errors import CtxkitError
from ctxkit.host._port import HostModel, HostPort, window_of
from ctxkit.host._recall_tools import SEARCH_MEMORY, ReadingTool, bounded, chunk
from ctxkit.host.context_config import settings_of
from ctxkit.tokens import Ruler, load_counter

if TYPE_CHECKING:
    from agentscope.agent import Agent
    from agentscope.state import AgentState
    from agentscope.tool import ToolChunk

    from ctxkit.memory import Memory, MemoryHit

logger = logging.getLogger("ctxkit")

INSTRUCTIONS = (
    "# Memory\n\n"
    "What leaves your context, in this and in earlier conversations, is written to memory. Before you answer anything about "
    f"earlier work, decisions, dates, people, preferences or open points, call {SEARCH_MEMORY} with a few words. If it finds "
    "nothing, say that you looked."
)
"""Stands in the system prompt of an agent that has the tool."""


class MemoryAccess:
    """One agent's way to its memory.

    Args:
        agent: The agent, which is not kept alive.
        memory: Its memory.
        hits: Most hits of one answer.
    """

    def __init__(self, agent: Agent, memory: Memory, hits: int) -> None:
        self.port = HostPort(agent)
        self.memory = memory
        self.hits = hits


_known: WeakValueDictionary[int, MemoryAccess] = WeakValueDictionary()
"""Access of each agent by the identity of its state; the agent's middleware holds it."""


class SearchMemory(ReadingTool):
    """Searches what was written to memory."""

    name = SEARCH_MEMORY
    description = (
        "Search your long-term memory: notes on everything that has left your context, in this conversation and in earlier "
        "ones, by date. Finds words as well as exact names, paths and numbers."
    )
    input_schema = {  # noqa: RUF012 - the host's own annotation is a plain attribute
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "A few words, or an exact name, path or number."},
            "limit": {"type": "integer", "minimum": 1, "description": "Most hits; as many as usual if unset."},
        },
        "required": ["query"],
    }

    async def call(
        self, *, _agent_state: AgentState | None = None, query: str = "", limit: int | None = None, **_: Any
    ) -> ToolChunk:
        """Answer from the calling agent's memory; what goes wrong is said, never raised."""
        access = None if _agent_state is None else _known.get(id(_agent_state))
        if access is None or access.port.agent.state is not _agent_state:
            return chunk("This agent has no memory.", ToolResultState.ERROR)
        try:
            return chunk(await _answer(access, query, limit), ToolResultState.SUCCESS)
        except CtxkitError as exc:
            return chunk(str(exc), ToolResultState.ERROR)


async def register(agent: Agent, access: MemoryAccess) -> None:
    """Give an agent the tool, where its toolkit does not have it, and let it find the agent's memory.

    A tool of somebody else's that has the name is left alone; a warning says so.
    """
    _known[id(agent.state)] = access
    there = await agent.toolkit.get_tool(SEARCH_MEMORY)
    if there is None:
        await agent.toolkit.add_tool(SearchMemory())
    elif not isinstance(there, SearchMemory):
        logger.warning(
            "the toolkit of agent %r has another tool named %r, ctxkit's is left out", agent.name, SEARCH_MEMORY
        )


async def _answer(access: MemoryAccess, query: str, limit: int | None) -> str:
    """Return the hits as fenced data that no limit of the context's cuts again."""
    agent = access.port.agent
    settings = settings_of(agent.context_config)
    window = HostModel(agent.model, window=window_of(agent)).context_size
    ruler = Ruler(await load_counter())
    hits = await access.memory.search(query, access.hits if limit is None else max(1, limit))

    async def ask(limit_tokens: int) -> str:
        return await ruler.head(_told(query, hits), limit_tokens)

    return await bounded(
        ask, min(settings.recall_limit(window), settings.tool_result_limit), ruler=ruler, port=access.port
    )


def _told(query: str, hits: list[MemoryHit]) -> str:
    if not hits:
        return f"Nothing in memory for {query[:200]!r}. Try other words, a name, or a part of one."
    return "\n\n".join(f"{n}. {_title(hit)}\n{hit.text}" for n, hit in enumerate(hits, start=1))


def _title(hit: MemoryHit) -> str:
    entry = hit.entry
    note = ", collected by code" if entry.is_extractive else ""
    return f"{entry.path} at {entry.clock}, session {entry.session_id[:100]!r}{note}"
