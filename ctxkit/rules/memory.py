"""What is remembered of an agent's rules: which turn it is, and when each fired; small plain JSON, kept over restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeGuard
from uuid import uuid4

from ctxkit.config.checks import is_number

_PROCESS: Final = uuid4().hex
"""Tells whether a tick is of this process: a monotonic clock says nothing to another."""
_MOST_RULES: Final = 256
"""So many rules are remembered, those that fired last; an agent's state is saved at every turn."""


@dataclass(frozen=True, kw_only=True)
class Fired:
    """When a rule fired last."""

    at: float
    """Seconds since the epoch."""
    tick: float
    """Seconds of the monotonic clock of the process that it fired in."""
    process: str
    turn: int


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """The two clocks that a cooldown goes by."""

    wall: Callable[[], float] = time.time
    """Seconds since the epoch; may be set forward and back."""
    tick: Callable[[], float] = time.monotonic
    """Seconds that only go on, known to this process alone."""
    process: str = _PROCESS


@dataclass(frozen=True, kw_only=True)
class RuleMemory:
    """What is remembered of one agent's rules."""

    turn: int = 0
    """Turns that have begun."""
    reply_id: str = ""
    """The reply of the running turn."""
    tool_calls: int = 0
    """Tool calls that the running turn has carried out."""
    fired: Mapping[str, Fired] = field(default_factory=dict)
    """By the rule's id, the one that fired last at the end."""

    def in_reply(self, reply_id: str, *, turns_before: int) -> RuleMemory:
        """Return what is remembered in a reply: another id is another turn, and a reply that was parked keeps its id.

        Args:
            reply_id: The reply that runs.
            turns_before: Turns of the context when nothing is remembered yet, the running one left out.
        """
        if reply_id == self.reply_id and self.turn:
            return self
        return replace(self, turn=(self.turn or turns_before) + 1, reply_id=reply_id, tool_calls=0)

    def after_call(self) -> RuleMemory:
        """Return what is remembered when the running turn has carried out one more tool call."""
        return replace(self, tool_calls=self.tool_calls + 1)

    def after_fire(self, rule: str, clocks: Clocks) -> RuleMemory:
        """Return what is remembered when a rule has fired in this turn."""
        fired = {name: when for name, when in self.fired.items() if name != rule}
        fired[rule] = Fired(at=clocks.wall(), tick=clocks.tick(), process=clocks.process, turn=self.turn)
        return replace(self, fired=dict(list(fired.items())[-_MOST_RULES:]))

    def cooldown_left_s(self, rule: str, cooldown_s: float, clocks: Clocks) -> float:
        """Return the seconds that a rule must wait, from 0 to its cooldown, whatever was done to the clock.

        In the process that it fired in the monotonic clock decides. Behind a restart it is the wall clock; where that
        says a time before the fire, it was set back, nobody knows how long ago the fire was, and nothing is waited for.
        """
        fired = self.fired.get(rule)
        if fired is None:
            return 0.0
        passed = clocks.tick() - fired.tick if fired.process == clocks.process else clocks.wall() - fired.at
        return max(0.0, cooldown_s - passed) if passed >= 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> RuleMemory:
        """Return what `to_json` wrote; of anything else, that nothing is remembered."""
        if not isinstance(data, dict):
            return cls()
        turn, reply_id, calls, fired = (data.get(name) for name in ("turn", "reply_id", "tool_calls", "fired"))
        if not _is_count(turn) or not _is_count(calls) or not isinstance(reply_id, str) or not isinstance(fired, dict):
            return cls()
        kept = {rule: Fired(**each) for rule, each in fired.items() if isinstance(rule, str) and _is_fired(each)}
        return cls(turn=turn, reply_id=reply_id, tool_calls=calls, fired=kept)


def _is_fired(data: object) -> bool:
    if not isinstance(data, dict) or data.keys() != {"at", "tick", "process", "turn"}:
        return False
    return (
        is_number(data["at"])
        and is_number(data["tick"])
        and isinstance(data["process"], str)
        and _is_count(data["turn"])
    )


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
