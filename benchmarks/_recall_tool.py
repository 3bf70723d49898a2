"""One call of ctxkit's own search tool, through the agent's toolkit, as a model would make it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentscope.message import ToolCallBlock
from agentscope.tool import ToolResponse

if TYPE_CHECKING:
    from agentscope.agent import Agent


async def search(agent: Agent, query: str) -> str:
    """Return what ctxkit's own tool answers, called through the agent's toolkit, but for its line on what follows."""
    call = ToolCallBlock(id="recall", name="search_context", input=json.dumps({"query": query}, ensure_ascii=False))
    async for chunk in agent.toolkit.call_tool(call, agent.state):
        if isinstance(chunk, ToolResponse):
            text = "".join(block.text for block in chunk.content if block.type == "text")
            return "\n".join(line for line in text.splitlines() if not line.startswith("(hits "))
    return ""
