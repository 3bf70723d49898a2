"""Drafts: the summary of what is about to leave, asked of the agent's own model and, where that fails, made by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxkit.engine.engine import Engine


class Drafts:
    """Makes drafts for one agent.

    Args:
        engine: The agent's engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
