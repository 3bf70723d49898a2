"""The limit of tool calls a turn: what is over it is not run, and the model is asked to answer without tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentscope.message import TextBlock, ToolResultState
from agentscope.tool import ToolChoice, ToolResponse

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from ctxkit.config import Settings
    from ctxkit.engine import Engine

_SLOT: Final = "calls"
_STRUCTURED: Final = "GenerateStructuredOutput"
"""Name of the host's tool that ends a reply with structured output: it answers, and is no step on the way."""


class CallLimit:
    """Counts the calls of one agent's turn, by calls and not by steps: one step may have several.

    A reply that was parked goes on with its count, for the turn is told by the reply's id and saved with the agent.

    Args:
        engine: The agent's engine.
        settings: How many calls there may be.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._port = engine.port
        self._most = settings.history.max_tool_calls

    @property
    def is_reached(self) -> bool:
        """Whether no further call of this turn is run."""
        return self._most is not None and self._count() >= self._most

    def admit(self, tool: str) -> bool:
        """Count a call that is about to be run; return False where it is one too many."""
        if self._most is None or tool == _STRUCTURED:
            return True
        if self.is_reached:
            return False
        self._port.slot[_SLOT] = [self._port.reply_id, self._count() + 1]
        return True

    def told(self, response: ToolResponse) -> ToolResponse:
        """Return a tool's response with a note that it was the last one, where the limit is reached now."""
        if not self.is_reached:
            return response
        note = (
            f"\n<system-reminder>The limit of {self._most} tool calls a turn is reached. Answer the user now with what you "
            "have, and say what is still open. Do not call any tools.</system-reminder>"
        )
        return response.model_copy(update={"content": [*response.content, TextBlock(text=note)]})

    def refusal(self) -> ToolResponse:
        """Return the answer to a call that is not run."""
        text = (
            f"This call was not run: the limit of {self._most} tool calls a turn is reached. Answer the user now with what "
            "you have, and say what is still open; call it again in the next turn."
        )
        return ToolResponse(content=[TextBlock(text=text)], state=ToolResultState.ERROR)

    def choice(self, agent: Agent, asked: ToolChoice | None) -> dict[str, Any]:
        """Return what to change of a reasoning step: without tools where the limit is reached.

        Args:
            agent: The agent.
            asked: The host's own tool choice, which wins; so does structured output that the reply has to give.
        """
        reply = getattr(agent.state, "reply_context", None)
        is_bound = asked is not None or getattr(reply, "structured_schema", None) is not None
        return {"tool_choice": ToolChoice(mode="none")} if self.is_reached and not is_bound else {}

    def _count(self) -> int:
        match self._port.slot.get(_SLOT):
            case [str(reply_id), int(count)] if reply_id == self._port.reply_id:
                return count
        return 0
