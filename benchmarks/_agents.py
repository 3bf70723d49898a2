"""The two agents that are compared: AgentScope's own, and the same one with ctxkit's three objects."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from agentscope.agent import Agent, ContextConfig, InjectionConfig, ReActConfig
from agentscope.tool import Toolkit
from agentscope.workspace import LocalWorkspace

import ctxkit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentscope.middleware import MiddlewareBase
    from agentscope.model import ChatModelBase
    from agentscope.tool import ToolBase
    from agentscope.workspace import Offloader

Side = Literal["stock", "ctxkit"]
SIDES: tuple[Side, ...] = ("stock", "ctxkit")


class MemoryWorkspace(ctxkit.LocalWorkspace):
    """ctxkit's workspace with its store in memory: files are written by threads that a clock which jumps does not know of.

    Args:
        workdir: The directory of the workspace.
    """

    def __init__(self, *, workdir: str) -> None:
        super().__init__(workdir=workdir)
        self.store = ctxkit.MemoryStore()  # type: ignore[assignment]  # a store of another kind, asked for the same
        self._durable = ctxkit.StoreOffloader(self.store, ctxkit.HostCodec())


def quiet() -> None:
    """Keep the warnings of both out of the tables: what goes wrong is counted."""
    logging.getLogger("as").setLevel(logging.CRITICAL)
    logging.getLogger("agentscope").setLevel(logging.CRITICAL)
    logging.getLogger("ctxkit").setLevel(logging.CRITICAL)


def make_agent(
    side: Side,
    model: ChatModelBase,
    tools: Sequence[ToolBase],
    *,
    workdir: Path,
    system_prompt: str,
    steps: int = 1000,
    middlewares: Sequence[MiddlewareBase] | None = None,
    offloader: Offloader | None = None,
    **config: Any,
) -> Agent:
    """Return an agent of one side.

    Args:
        side: Whose context management it has.
        model: The model.
        tools: Its tools.
        workdir: Where what leaves the context is stored; stock has AgentScope's own `LocalWorkspace`.
        system_prompt: The system prompt.
        steps: Most reasoning steps of a reply.
        middlewares: In place of the side's own: ctxkit's, or none.
        offloader: In place of the side's own workspace.
        **config: Fields that both classes of `ContextConfig` have.
    """
    ours = side == "ctxkit"
    if middlewares is None:
        middlewares = [ctxkit.CompressionMiddleware()] if ours else []
    return Agent(
        name="friday",
        system_prompt=system_prompt,
        model=model,
        toolkit=Toolkit(tools=list(tools)),
        context_config=ctxkit.ContextConfig(**config) if ours else ContextConfig(**config),
        offloader=offloader or (ctxkit.LocalWorkspace if ours else LocalWorkspace)(workdir=str(workdir)),
        middlewares=list(middlewares),
        react_config=ReActConfig(max_iters=steps),
        # The time of day in the context would make two runs differ.
        injection_config=InjectionConfig(inject_runtime_state=False),
    )
