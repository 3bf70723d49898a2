"""One agent that a CompressionMiddleware serves: its engine, and where in a reply it is."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.engine import Engine


class Attached:
    """What the hooks share about one agent while it lives; nothing of it needs to survive a restart.

    Args:
        engine: The agent's engine.
        offloader: The offloader that the engine's guard was made for.
    """

    def __init__(self, engine: Engine, *, offloader: object) -> None:
        self.engine = engine
        self.offloader = offloader
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

    def is_in_tool(self, name: str) -> bool:
        """Whether a tool of this name runs now."""
        return name in self._tools
