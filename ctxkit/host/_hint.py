"""The host's own hint that a compression is near: while the host writes it, the agent's config has the true trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentscope.agent import Agent, ContextConfig


class TrueHint:
    """Lends one agent a config with the true trigger, and takes it back before anybody else reads the config.

    The host tells the agent at the beginning of a reply at how many tokens its context will be compressed, and takes the
    number from `context_config.trigger_ratio`. Where prices decide, that is not the number; so the config is replaced by a
    copy between the host's own call of `compress_context`, which comes just before, and the reasoning step behind it.
    """

    def __init__(self) -> None:
        self._own: ContextConfig | None = None
        self._lent: ContextConfig | None = None

    def lend(self, agent: Agent, trigger_tokens: int) -> None:
        """Give the agent a copy of its config that has the trigger in tokens.

        Args:
            agent: The agent.
            trigger_tokens: Tokens at which a compression will be due.
        """
        own, window = agent.context_config, agent.model.context_size
        if trigger_tokens == int(own.trigger_ratio * window):
            return
        ratio = (trigger_tokens + 0.5) / window  # the host rounds down
        changes = {"trigger_ratio": ratio}
        if hasattr(own, "context_buffer_ratio"):
            # The hint comes at the same share of the trigger as the user's config says.
            changes["context_buffer_ratio"] = own.context_buffer_ratio * ratio / own.trigger_ratio
        self._own, self._lent = own, own.model_copy(update=changes)
        agent.context_config = self._lent

    def take_back(self, agent: Agent) -> None:
        """Give the agent its own config again; one that somebody else has set meanwhile stays."""
        if self._own is not None and agent.context_config is self._lent:
            agent.context_config = self._own
        self._own = self._lent = None


def is_wanted(agent: Agent) -> bool:
    """Whether the host may write the hint before the next reasoning step."""
    return agent.injection_config.inject_runtime_state and agent.state.cur_iter == 0
