"""`search_context` and `read_context`: the tools by which an agent reads back what left its context.

Agents that share a toolkit share these tools; each call finds its own agent's history by the state that the host injects.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from agentscope.message import TextBlock, ToolResultState
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk

from ctxkit.errors import CtxkitError
from ctxkit.host._attached import attached_to
from ctxkit.host.context_config import settings_of
from ctxkit.offload import fence
from ctxkit.results import defuse_in_pieces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentscope.agent import Agent
    from agentscope.permission import PermissionContext
    from agentscope.state import AgentState

    from ctxkit.engine import Engine
    from ctxkit.host._port import HostPort
    from ctxkit.offload import Recall
    from ctxkit.port import AgentPort
    from ctxkit.tokens import Ruler

logger = logging.getLogger("ctxkit")

SEARCH = "search_context"
READ = "read_context"
SEARCH_MEMORY = "search_memory"
"""The tool of `MemoryMiddleware`."""

_FENCE_TOKENS = 32
"""Room for the fence round recalled text."""
_TRIES = 6
_MARGIN_RATIO = 0.95
"""Each further try asks for a little less than the proportion, for the host counts differently."""

_agents: WeakValueDictionary[int, Agent] = WeakValueDictionary()
"""Each agent by the identity of its state, which is no other's while the agent has it."""
_states: WeakKeyDictionary[Agent, int] = WeakKeyDictionary()
"""The identity by which an agent stands there."""


class ReadingTool(ToolBase):
    """A tool that only reads what the agent has seen: it needs no permission, and gets the calling agent's state."""

    is_concurrency_safe = True
    is_read_only = True
    is_state_injected = True

    async def check_permissions(self, tool_input: dict[str, Any], context: PermissionContext) -> PermissionDecision:
        """Allow: an agent may always read what it has seen before."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message=f"{self.name} only reads.")


class _RecallTool(ReadingTool):
    """What the two recall tools have in common."""

    async def call(self, *, _agent_state: AgentState | None = None, **arguments: Any) -> ToolChunk:
        """Answer from the calling agent's own history; what goes wrong is said, never raised."""
        engine = _engine_of(_agent_state)
        recall = None if engine is None else engine.recall
        if engine is None or recall is None:
            return chunk("Nothing can be read back: this agent has no store.", ToolResultState.ERROR)
        try:
            return chunk(await self._bounded(engine, recall, arguments), ToolResultState.SUCCESS)
        except CtxkitError as exc:
            return chunk(str(exc), ToolResultState.ERROR)

    async def _bounded(self, engine: Engine, recall: Recall, arguments: dict[str, Any]) -> str:
        """Return a fenced answer within both ctxkit's limit and the host's, or the host would cut and store it again."""
        settings = settings_of(cast("HostPort", engine.port).agent.context_config)
        limit = min(settings.recall_limit(engine.gauge.window(engine.port.model)), settings.tool_result_limit)

        async def ask(limit_tokens: int) -> str:
            return await self.answer(engine, recall, limit_tokens=limit_tokens, **arguments)

        return await bounded(ask, limit, ruler=engine.ruler, port=engine.port)

    @abstractmethod
    async def answer(self, engine: Engine, recall: Recall, *, limit_tokens: int, **arguments: Any) -> str:
        """Return the text that the model gets."""


class SearchContext(_RecallTool):
    """Searches everything of this agent's that left its context."""

    name = SEARCH
    description = (
        "Search everything of this conversation that has left your context: earlier messages, and tool results in full. "
        "Finds words as well as exact identifiers, paths and phrases. Use it whenever you need a detail that a summary or "
        "a truncated result no longer shows."
    )
    input_schema = {  # noqa: RUF012 - the host's own annotation is a plain attribute
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words, or an exact identifier, path or phrase."},
            "skip": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "Hits to leave out, for the next page.",
            },
        },
        "required": ["query"],
    }

    async def answer(
        self, engine: Engine, recall: Recall, *, limit_tokens: int, query: str = "", skip: int = 0, **_: Any
    ) -> str:
        """Return the hits, best first."""
        return await recall.search(
            engine.port.session_id, query, skip=skip, limit_tokens=limit_tokens, ruler=engine.ruler
        )


class ReadContext(_RecallTool):
    """Reads one stored thing of this agent's, a page at a time."""

    name = READ
    description = (
        "Read back something that has left your context: a full tool result or earlier messages, by the reference that a "
        "truncation marker, a summary or search_context names. Long content comes in pages; go on at the offset that the "
        "answer names."
    )
    input_schema = {  # noqa: RUF012 - as above
        "type": "object",
        "properties": {
            "reference": {"type": "string", "description": "The reference, as it was shown to you."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "First character, from 0 on."},
            "limit": {"type": "integer", "minimum": 1, "description": "Most characters; as many as allowed if unset."},
        },
        "required": ["reference"],
    }

    async def answer(
        self,
        engine: Engine,
        recall: Recall,
        *,
        limit_tokens: int,
        reference: str = "",
        offset: int = 0,
        limit: int | None = None,
        **_: Any,
    ) -> str:
        """Return a page of what is stored."""
        return await recall.read(
            engine.port.session_id,
            reference,
            offset=offset,
            limit=limit,
            limit_tokens=limit_tokens,
            ruler=engine.ruler,
        )


async def bounded(ask: Callable[[int], Awaitable[str]], limit_tokens: int, *, ruler: Ruler, port: AgentPort) -> str:
    """Return an answer as fenced data, within a limit by ctxkit's count and by the host's.

    Args:
        ask: Returns the answer in about so many tokens.
        limit_tokens: Most tokens of what is returned.
        ruler: Counts as ctxkit does.
        port: Counts as the host does.
    """
    aim, nonce, text = limit_tokens - _FENCE_TOKENS, token_hex(4), ""
    for _ in range(_TRIES):
        text = fence(await defuse_in_pieces(await ask(max(1, aim))), nonce)
        counts = (await ruler.count(text), await port.host_count([TextBlock(text=text)]))
        if max(counts) <= limit_tokens:
            break
        aim = int(aim * limit_tokens / max(counts) * _MARGIN_RATIO)
    return text


def recall_tools() -> list[ToolBase]:
    """Return the two tools, new objects at each call."""
    return [SearchContext(), ReadContext()]


async def register(agent: Agent, engine: Engine) -> None:
    """Give an agent the recall tools, where its toolkit does not have them, and let them find its engine.

    A tool of somebody else's that has the name is left alone; a warning says so. Without a store there is nothing to
    recall, and no tools.
    """
    _find_by_state(agent)
    if engine.recall is None:
        return
    for tool in recall_tools():
        there = await agent.toolkit.get_tool(tool.name)
        if there is None:
            await agent.toolkit.add_tool(tool)
        elif not isinstance(there, _RecallTool):
            logger.warning(
                "the toolkit of agent %r has another tool named %r, ctxkit's is left out", agent.name, tool.name
            )


def _find_by_state(agent: Agent) -> None:
    """Let an agent be found by the state that it has now, and by none that it had."""
    now, before = id(agent.state), _states.get(agent)
    if before is not None and before != now and _agents.get(before) is agent:
        del _agents[before]
    _agents[now], _states[agent] = agent, now


def _engine_of(state: AgentState | None) -> Engine | None:
    """Return the engine of the agent that has this very state; the identity of one that is gone may be used again."""
    agent = None if state is None else _agents.get(id(state))
    if agent is None or agent.state is not state:
        return None
    attached = attached_to(agent)
    return None if attached is None else attached.engine


async def is_recall(agent: Agent, name: str) -> bool:
    """Whether a tool is one that reads back, whose results are bounded by themselves and never stored again."""
    return name in {SEARCH, READ, SEARCH_MEMORY} and isinstance(await agent.toolkit.get_tool(name), ReadingTool)


def chunk(text: str, state: ToolResultState) -> ToolChunk:
    """Return a tool's whole answer."""
    return ToolChunk(content=[TextBlock(text=text)], state=state)
