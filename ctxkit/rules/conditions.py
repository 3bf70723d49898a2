"""The conditions that rules may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ctxkit.config.checks import one_of, ratio, whole
from ctxkit.rules._base import Facts


@dataclass(frozen=True)
class ContextPressure:
    """The request has more than a share of the window, what is kept for the answer left out."""

    threshold: float
    """The share, (0, 1]."""

    def __post_init__(self) -> None:
        ratio(self, "threshold")

    def is_met(self, facts: Facts) -> bool:
        """Whether the pressure is above the threshold."""
        return facts.pressure > self.threshold


@dataclass(frozen=True)
class TurnCount:
    """One turn has come; fires once in it, however many model calls the turn has."""

    count: int
    """The turn, at least 1."""

    def __post_init__(self) -> None:
        whole(self, "count", least=1)

    def is_met(self, facts: Facts) -> bool:
        """Whether this is the turn, and the first look in it."""
        return facts.turn == self.count and facts.fired_turn != facts.turn


@dataclass(frozen=True)
class ToolCalls:
    """There are more tool calls than a number."""

    threshold: int
    """Fires above so many calls, at least 0."""
    within: Literal["turn", "context"] = "turn"
    """Count the calls of the running turn, or all that are in the context."""

    def __post_init__(self) -> None:
        whole(self, "threshold", least=0)
        one_of(self, "within", ("turn", "context"))

    def is_met(self, facts: Facts) -> bool:
        """Whether there are more."""
        return (facts.tool_calls if self.within == "turn" else facts.context_tool_calls) > self.threshold


@dataclass(frozen=True)
class MessageCount:
    """There are more messages in the context than a number."""

    threshold: int
    """Fires above so many messages, counted as a provider's format has them, at least 0."""

    def __post_init__(self) -> None:
        whole(self, "threshold", least=0)

    def is_met(self, facts: Facts) -> bool:
        """Whether there are more."""
        return facts.messages > self.threshold


@dataclass(frozen=True)
class Always:
    """Nothing is asked; a cooldown says how often the rule fires."""

    def is_met(self, facts: Facts) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Return True."""
        return True
