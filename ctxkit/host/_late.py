"""Summaries that come later: what memory has written of what left is brought in when the next turn begins."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ctxkit.host._attached import summaries_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agentscope.agent import Agent

    from ctxkit.config import Settings
    from ctxkit.engine import Engine

logger = logging.getLogger("ctxkit")


async def bring_in_late(engine: Engine, agent: Agent, settings: Settings) -> None:
    """Bring in what is there by now; what is not, or cannot be read, is asked for again in the next turn.

    Args:
        engine: The agent's engine.
        agent: The agent.
        settings: How much room the summaries may have.
    """
    awaited = engine.awaited() if settings.summary.timing == "next_turn" else ()
    if not awaited:
        return

    async def emit(name: str, value: Mapping[str, Any]) -> None:
        engine.tell_later(name, **value)

    try:
        async with asyncio.timeout(settings.offload.timeout_s):
            texts = await summaries_for(agent, awaited)
        if texts:
            await engine.bring_in(texts, settings, emit=emit)
    except Exception:
        logger.exception("ctxkit could not bring in what memory has written for agent %r", agent.name)
