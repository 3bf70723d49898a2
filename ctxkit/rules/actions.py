"""The actions that rules may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

from ctxkit.config.checks import one_of, refuse, whole
from ctxkit.rules._base import CompactStrategy, Role, RuleAgent

PLACEHOLDERS: Final = ("turn", "tokens", "messages")
"""What a logged message may name in braces."""


@dataclass(frozen=True)
class CompactContext:
    """Compresses the context as `compact()` does: what leaves is stored first, and calls stay with their results."""

    strategy: CompactStrategy | None = None
    """What becomes of the oldest messages; `None` takes the config's `ladder.strategy`."""
    keep_recent: int | None = None
    """So many of the newest messages stay, at least 0; `None` takes the config's `ladder.keep_messages`."""
    summary_max_tokens: int | None = None
    """Most tokens of the summary, at least 50; `None` takes the config's `summary.max_tokens`."""

    def __post_init__(self) -> None:
        if self.strategy is not None:
            one_of(self, "strategy", ("summarize", "truncate"))
        if self.keep_recent is not None:
            whole(self, "keep_recent", least=0)
        if self.summary_max_tokens is not None:
            whole(self, "summary_max_tokens", least=50)

    async def act(self, agent: RuleAgent) -> None:
        """Compress."""
        await agent.compact(
            strategy=self.strategy, keep_recent=self.keep_recent, summary_max_tokens=self.summary_max_tokens
        )


@dataclass(frozen=True)
class InjectMessage:
    """Puts a message at the end of the context, as a hint: providers refuse a system message that is not the first."""

    message: str
    """What it says."""
    role: Role = "system"
    """Whose words they are: a hint from the system is marked as a reminder, one from the user stands as it is."""

    def __post_init__(self) -> None:
        if not isinstance(self.message, str) or not self.message.strip():
            refuse(self, "message", self.message, "give a text")
        one_of(self, "role", ("system", "user"))

    async def act(self, agent: RuleAgent) -> None:
        """Inject it."""
        await agent.inject(self.message, role=self.role)


@dataclass(frozen=True)
class ModuleAction:
    """Calls a function that was registered under two names."""

    module: str
    """The first name."""
    action: str
    """The second name."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the call."""

    def __post_init__(self) -> None:
        for name in ("module", "action"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                refuse(self, name, getattr(self, name), "give the name under which it is registered")
        if not isinstance(self.params, Mapping) or not all(isinstance(name, str) for name in self.params):
            refuse(self, "params", self.params, "give a mapping of the call's arguments by name")
        object.__setattr__(self, "params", dict(self.params))

    async def act(self, agent: RuleAgent) -> None:
        """Call it."""
        await agent.call(self.module, self.action, self.params)


@dataclass(frozen=True)
class LogMessage:
    """Writes a line to ctxkit's log."""

    message: str
    """The line; `{turn}`, `{tokens}` and `{messages}` stand for what they are at that moment, `{{` for a brace."""

    def __post_init__(self) -> None:
        if not isinstance(self.message, str):
            refuse(self, "message", self.message, "give a text")
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        try:
            parts = list(Formatter().parse(self.message))
        except ValueError as exc:
            refuse(self, "message", self.message, f"write literal braces as '{{{{' and '}}}}' ({exc})")
        for _, name, form, conversion in parts:
            if name is not None and (name not in PLACEHOLDERS or form or conversion):
                refuse(
                    self, "message", self.message, f"{{{name}}} is no placeholder; use {known}, and '{{{{' for a brace"
                )

    async def act(self, agent: RuleAgent) -> None:
        """Log it."""
        facts = agent.facts
        await agent.log(self.message.format(turn=facts.turn, tokens=facts.tokens, messages=facts.messages))
