"""Agents that have a memory, and what tests ask of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentscope.agent import Agent

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    MemoryMiddleware,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    history,
    make_agent,
)

ENTRY = "[DAILY]\n- The number of old-0 was looked up.\n- Ticket AB-1234 is open.\n[MEMORY]\nOld topics are done; AB-1234 is next."


def an_agent(memory: MemoryMiddleware, script: Any = ("Done.",), *, offloader: Any = None, **kwargs: Any) -> Agent:
    """Return an agent whose context has to be compressed before its first answer."""
    model = kwargs.pop("model", None) or ScriptedModel(
        list(script), context_size=14_000, memories=kwargs.pop("memories", ENTRY)
    )
    config = ContextConfig(trigger_ratio=0.3, **kwargs.pop("settings", {}))
    middlewares = [CompressionMiddleware(), memory]
    agent = make_agent(model, config=config, offloader=offloader, middlewares=middlewares, **kwargs)
    agent.state.context.extend(history(14, size=350))
    return agent


def diary(root: Path) -> str:
    """Return all daily files."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "memory").glob("????-??-??.md")))


async def use(agent: Agent, **arguments: Any) -> str:
    """Return what the tool answers the agent."""
    async for response in agent.toolkit.call_tool(call("search_memory", **arguments), agent.state):
        last = response
    return "\n".join(block.text for block in last.content)


def refused_once(script: Any, **kwargs: Any) -> ScriptedModel:
    """Return a model whose provider has a smaller window than is known, and refuses what is larger."""
    return ScriptedModel(list(script), context_size=40_000, limit=6_000, enforce="cl100k", memories=ENTRY, **kwargs)
