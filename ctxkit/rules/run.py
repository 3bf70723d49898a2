"""Looks at an agent's rules at one moment, and carries out those that fire."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ctxkit import telemetry
from ctxkit.port import EmitEvent
from ctxkit.rules._base import Facts, Moment, RuleAgent
from ctxkit.rules.memory import Clocks, RuleMemory
from ctxkit.rules.rule import Rule

logger = logging.getLogger("ctxkit.rules")


class RuleHost(Protocol):
    """One agent, as its rules need it."""

    @property
    def memory(self) -> RuleMemory:
        """What is remembered; kept with the agent's state."""
        ...

    @memory.setter
    def memory(self, memory: RuleMemory) -> None: ...

    async def facts(self) -> Facts:
        """Measure."""
        ...

    def acting(self, facts: Facts) -> RuleAgent:
        """Return the agent as an action may change it."""
        ...


@dataclass(frozen=True, kw_only=True)
class RuleRun:
    """Looks at rules in the order in which they were given.

    Args:
        rules: The rules.
        clocks: What cooldowns go by.
    """

    rules: Sequence[Rule]
    clocks: Clocks = field(default_factory=Clocks)

    async def at(self, moment: Moment, host: RuleHost, *, emit: EmitEvent) -> None:
        """Carry out the rules that fire, and tell of each.

        A rule that cannot be looked at or carried out is logged and told; the next one has its turn. What a rule
        changes is measured before the next one is looked at. A cooldown begins with the fire, whatever comes of it.
        """
        facts: Facts | None = None
        for rule in self.rules:
            left_s = host.memory.cooldown_left_s(rule.id, rule.cooldown, self.clocks)
            if rule.on != moment or left_s > 0:
                continue
            about = {"rule": rule.id, "on": moment, "action": type(rule.action).__name__}
            try:
                facts = facts or await host.facts()
                fired = host.memory.fired.get(rule.id)
                now = replace(facts, fired_turn=None if fired is None else fired.turn)
                if not await _settled(rule.condition.is_met(now)):
                    continue
                host.memory = host.memory.after_fire(rule.id, self.clocks)
                facts = None
                await _settled(rule.action.act(host.acting(now)))
            except Exception as exc:
                logger.exception("the rule %r failed; the reply goes on", rule.id)
                await emit(telemetry.RULE_FAILED, {**about, "problem": f"{type(exc).__name__}: {exc}"})
            else:
                told = {"turn": now.turn, "tokens": now.tokens, "messages": now.messages}
                await emit(telemetry.RULE_FIRED, {**about, **told})


async def _settled(answer: Any) -> Any:
    """Return an answer, awaited where it can be."""
    return await answer if inspect.isawaitable(answer) else answer
