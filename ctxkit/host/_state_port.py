"""An agent's state without its agent, as the engine needs it: apps rebuild the agent at every turn, and keep the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

from ctxkit.errors import ConfigError
from ctxkit.host._port import HostPort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.agent import Agent
    from agentscope.state import AgentState

    from ctxkit.host._port import HostModel
    from ctxkit.port import Piece, Request


class _Stated:
    """Stands where the agent would: it has the agent's name and its state, and nothing else.

    Args:
        state: The state.
    """

    def __init__(self, state: AgentState) -> None:
        self.state = state

    @property
    def name(self) -> str:
        """The agent's name, as the message of its last reply has it; empty where there is none."""
        own = (message for message in reversed(self.state.context) if message.id == self.state.reply_id)
        return next((message.name for message in own if message.role == "assistant"), "")


class StatePort(HostPort):
    """A saved agent; see `ctxkit.port.AgentPort`. It can be read and changed, and has no model.

    Args:
        state: The state, which is changed in place.
    """

    def __init__(self, state: AgentState) -> None:
        self._stated = _Stated(state)

    @property
    def agent(self) -> Agent:
        """What stands where the agent would."""
        return cast("Agent", self._stated)

    @property
    def model(self) -> HostModel:
        """There is none.

        Raises:
            ConfigError: Always.
        """
        _refuse()

    async def request(self) -> Request:
        """There is none.

        Raises:
            ConfigError: Always.
        """
        _refuse()

    async def host_count(self, pieces: Sequence[Piece]) -> int:
        """Nobody counts.

        Raises:
            ConfigError: Always.
        """
        _refuse()


def _refuse() -> NoReturn:
    msg = "Steering was made from an AgentState, which has no model: make it from the agent to preview and compact."
    raise ConfigError(msg)
