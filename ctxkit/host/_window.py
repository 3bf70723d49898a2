"""Guards of the window before an agent's reply: one that is too small is refused, one that is small is warned of."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.host._port import window_of
from ctxkit.tokens.windows import check_window

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from ctxkit.engine import Engine

logger = logging.getLogger("ctxkit")


class WindowGuard:
    """Looks at one agent's window at each reply, for its model and its config may be others by then."""

    def __init__(self) -> None:
        self._warned_of: tuple[str, int] | None = None

    def check(self, agent: Agent, engine: Engine) -> None:
        """Refuse a window that is too small or unknown; warn once of one that is small.

        Raises:
            ConfigError: Nobody knows the window, or it is below `WindowConfig.refuse_below_tokens`.
        """
        config, name = window_of(agent), agent.model.model
        size = engine.port.model.context_size
        check_window(size, name, config)
        if size >= config.warn_below_tokens or self._warned_of == (name, size):
            return
        self._warned_of = (name, size)
        logger.warning(
            "agent %r: the context window of %s is %d tokens, and below %d an agent forgets much of its work",
            agent.name,
            name,
            size,
            config.warn_below_tokens,
        )
        engine.tell_later(telemetry.SMALL_WINDOW, context_size=size, warn_below_tokens=config.warn_below_tokens)
