"""What a rule knows and may do: the facts at one moment, conditions on them, and actions on an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

Moment = Literal["turn_start", "turn_end"]
"""When rules are looked at: before each model call of a turn, or when the turn has ended."""
MOMENTS: Final[tuple[str, ...]] = get_args(Moment)
Role = Literal["system", "user"]
"""Whose words an injected message has."""
CompactStrategy = Literal["summarize", "truncate"]
"""What becomes of the oldest messages: a summary, or a line that says that they were truncated."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of an agent at the moment at which a rule is looked at."""

    turn: int
    """The running turn, the first is 1; a reply that was parked for a person goes on in its turn."""
    tokens: int
    """Tokens of the request that would be sent now."""
    pressure_tokens: float
    """What pressure is about: the same, or a quick estimate of it where `triggers.chars_per_token` asks for one."""
    context_size: int
    """Tokens of the window."""
    output_reserved: int
    """Tokens of the window that are kept for the answer."""
    messages: int
    """Messages in the context, as a provider's format has them: a call, a result, a text."""
    tool_calls: int
    """Tool calls of the running turn."""
    context_tool_calls: int
    """Tool calls in the context."""
    fired_turn: int | None = None
    """The turn in which the rule fired last; `None` where it never did."""

    @property
    def pressure(self) -> float:
        """How full the window is: tokens by what the answer leaves of it, at least 0; above 1 where it is too full."""
        available = self.context_size - self.output_reserved
        return self.pressure_tokens / available if available > 0 else float("inf")


@runtime_checkable
class Condition(Protocol):
    """Says whether a rule fires; own ones are frozen dataclasses, whose fields are what stands beside `type` in a file."""

    def is_met(self, facts: Facts) -> bool | Awaitable[bool]:
        """Return whether it holds now; what can be awaited is awaited."""
        ...


class RuleAgent(Protocol):
    """One agent at one moment, as an action may change it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    @property
    def facts(self) -> Facts:
        """What is known now."""
        ...

    async def compact(
        self, *, strategy: CompactStrategy | None, keep_recent: int | None, summary_max_tokens: int | None
    ) -> None:
        """Compress the context; `None` takes what the agent's config says.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreError: What would leave the context could not be stored.
            SummaryError: No model made a summary, and the config forbids one without a model.
        """
        ...

    async def inject(self, message: str, *, role: Role) -> None:
        """Put a message at the end of the context."""
        ...

    async def call(self, module: str, action: str, params: Mapping[str, Any]) -> object:
        """Call what is registered under two names, and return what it returns."""
        ...

    async def log(self, message: str) -> None:
        """Write a line to ctxkit's log."""
        ...


@runtime_checkable
class Action(Protocol):
    """What a rule does; own ones are frozen dataclasses, whose fields are what stands beside `type` in a file."""

    def act(self, agent: RuleAgent) -> Awaitable[None] | None:
        """Do it; what can be awaited is awaited. What it raises is logged and told, and stops nothing."""
        ...
