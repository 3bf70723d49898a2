"""A rule: when it is looked at, what must hold, what is done, and how often at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ctxkit.config.checks import at_least, one_of, refuse
from ctxkit.errors import ConfigError
from ctxkit.rules._base import MOMENTS, Action, CompactStrategy, Condition, Moment
from ctxkit.rules.actions import CompactContext
from ctxkit.rules.conditions import ContextPressure

AUTO_COMPACT: Final = "_auto_compact"
"""Id of the rule that is put in where none compresses."""
AUTO_COOLDOWN_S: Final = 30.0
"""Its cooldown; Digitorn's context management, "Auto-Injected Hook"."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition and an action, looked at while an agent works."""

    id: str
    """Its name, of which there is one."""
    condition: Condition
    """What must hold for it to fire."""
    action: Action
    """What it does."""
    on: Moment = "turn_end"
    """Looked at before each model call (`turn_start`), or when a turn has ended (`turn_end`)."""
    cooldown: float = 0.0
    """Seconds from one fire to the next, at least 0; they go on over restarts."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            refuse(self, "id", self.id, "give a name of its own")
        if not isinstance(self.condition, Condition):
            refuse(self, "condition", self.condition, "give an object with a method is_met")
        if not isinstance(self.action, Action):
            refuse(self, "action", self.action, "give an object with a method act")
        one_of(self, "on", MOMENTS)
        at_least(self, "cooldown", 0)

    @property
    def compacts(self) -> bool:
        """Whether it compresses the context."""
        return isinstance(self.action, CompactContext)


def check_ids(rules: Iterable[Rule]) -> None:
    """Refuse rules two of which have one name.

    Raises:
        ConfigError: The message names them.
    """
    twice = [name for name, count in Counter(rule.id for rule in rules).items() if count > 1]
    if twice:
        msg = f"rules have these ids more than once: {', '.join(map(repr, twice))}; give each an id of its own."
        raise ConfigError(msg)


def with_auto_compact(
    rules: Iterable[Rule],
    *,
    compression_trigger: float = 0.75,
    strategy: CompactStrategy = "summarize",
    keep_recent: int | None = 10,
    summary_max_tokens: int = 1024,
) -> tuple[Rule, ...]:
    """Return rules, and before them one that compresses where none of them does.

    The defaults are those of Digitorn's context management, as is the cooldown.

    Args:
        rules: What was declared.
        compression_trigger: Pressure above which it compresses, (0, 1].
        strategy: What becomes of the oldest messages.
        keep_recent: So many of the newest messages stay.
        summary_max_tokens: Most tokens of the summary.
    """
    declared = tuple(rules)
    if any(rule.compacts for rule in declared):
        return declared
    automatic = Rule(
        id=AUTO_COMPACT,
        on="turn_start",
        condition=ContextPressure(compression_trigger),
        action=CompactContext(strategy=strategy, keep_recent=keep_recent, summary_max_tokens=summary_max_tokens),
        cooldown=AUTO_COOLDOWN_S,
    )
    return (automatic, *declared)
