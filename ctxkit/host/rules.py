"""`RulesMiddleware`: looks at a user's rules before each model call and when a turn has ended."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from agentscope.event import ReplyEndEvent
from agentscope.middleware import MiddlewareBase

from ctxkit.errors import ConfigError
from ctxkit.host import _compat
from ctxkit.host._ruled import SLOT, RuledAgent, function_of, is_alone
from ctxkit.host._tasks import OwnedTasks
from ctxkit.rules import ModuleAction, Rule, check_ids
from ctxkit.rules.memory import Clocks
from ctxkit.rules.run import RuleRun

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable

    from agentscope.agent import Agent
    from agentscope.tool import ToolChunk, ToolResponse

    from ctxkit.host._ruled import Modules
    from ctxkit.host.events import ContextEvent
    from ctxkit.port import EmitEvent
    from ctxkit.rules._base import Moment

_INTERRUPTED: Final = "interrupted"


class RulesMiddleware(MiddlewareBase):
    """Carries out rules: when a condition holds before a model call or at the end of a turn, something is done.

    One instance may serve many agents; what is remembered of an agent's rules is in its state. Put it before
    `CompressionMiddleware`, so that a rule sees what there is before that acts, and behind `SessionMiddleware`, so that
    what a rule does at the end of a turn is saved. A rule that fails is logged and told, and never ends a reply.

    Args:
        rules: The rules, in the order in which they are looked at.
        modules: What rules with a `ModuleAction` call: functions, or coroutine functions, which are awaited.
        clocks: What cooldowns go by.

    Raises:
        ConfigError: Two rules have one id, or one calls what is not registered.
    """

    def __init__(self, rules: Iterable[Rule], *, modules: Modules | None = None, clocks: Clocks | None = None) -> None:
        self.rules = tuple(rules)
        """The rules."""
        check_ids(self.rules)
        self._modules = dict(modules or {})
        for rule in self.rules:
            if isinstance(rule.action, ModuleAction):
                function_of(self._modules, rule.action.module, rule.action.action)
        self._run = RuleRun(rules=self.rules, clocks=clocks or Clocks())
        self._moments = {rule.on for rule in self.rules}
        self._tasks = OwnedTasks()

    async def get_middleware_key(self) -> str:
        """Return the key of what is remembered in `agent.state.middle_context`."""
        return SLOT

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Look at the rules of `turn_end` when the turn has ended; parked for a person, or interrupted, is not ended.

        Raises:
            ConfigError: A rule compresses, and the agent has no `CompressionMiddleware`; or it has two of these.
        """
        self._check(agent)
        async with aclosing(next_handler()) as items:
            async for item in items:
                if isinstance(item, ReplyEndEvent) and item.finished_reason != _INTERRUPTED:
                    async with aclosing(self._look("turn_end", agent)) as events:
                        async for event in events:
                            yield event
                yield item

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Look at the rules of `turn_start` before the model is asked."""
        host = RuledAgent(agent, modules=self._modules)
        host.memory = host.memory  # a turn is counted where it begins, whichever rules there are
        async with aclosing(self._look("turn_start", agent)) as events:
            async for event in events:
                yield event
        async for item in next_handler():
            yield item

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[ToolChunk | ToolResponse, None]:
        """Count the call."""
        host = RuledAgent(agent, modules=self._modules)
        host.memory = host.memory.after_call()
        async for chunk in next_handler():
            yield chunk

    async def _look(self, moment: Moment, agent: Agent) -> AsyncGenerator[ContextEvent, None]:
        """Look at the rules of a moment, and yield what they tell while they are carried out."""
        if moment not in self._moments:
            return

        def work(emit: EmitEvent) -> Coroutine[Any, Any, None]:
            return self._run.at(moment, RuledAgent(agent, modules=self._modules, emit=emit), emit=emit)

        async with aclosing(self._tasks.stream(work, agent, name=f"ctxkit-rules-{agent.name}")) as events:
            async for event in events:
                yield event

    def _check(self, agent: Agent) -> None:
        """Refuse an agent that these rules cannot serve."""
        if sum(isinstance(each, RulesMiddleware) for each in _compat.middlewares_of(agent)) > 1:
            msg = f"Agent {agent.name!r} has two RulesMiddlewares: give one of them all rules."
            raise ConfigError(msg)
        compacting = [rule.id for rule in self.rules if rule.compacts]
        if compacting and is_alone(agent):
            msg = (
                f"The rules {', '.join(map(repr, compacting))} compress the context of agent {agent.name!r}, which has no "
                "CompressionMiddleware: give it one."
            )
            raise ConfigError(msg)
