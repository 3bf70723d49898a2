"""One agent as its rules see it, and what a rule may do to it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from agentscope.message import HintBlock

from ctxkit.config import SUMMARY_RUNG
from ctxkit.config.checks import did_you_mean
from ctxkit.errors import ConfigError
from ctxkit.host._port import HostPort
from ctxkit.host.context_config import settings_of
from ctxkit.host.steering import compression_of
from ctxkit.plan import Reason
from ctxkit.rules import Facts
from ctxkit.rules.memory import RuleMemory
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentscope.agent import Agent

    from ctxkit.config import Settings
    from ctxkit.engine import Engine
    from ctxkit.port import EmitEvent
    from ctxkit.rules._base import CompactStrategy, Role

logger = logging.getLogger("ctxkit.rules")

SLOT: Final = "ctxkit.rules"
"""Key of what is remembered of an agent's rules in its `middle_context`."""

Modules = Mapping[str, object]
"""Functions by two names: of each module a mapping of functions by name, or an object whose methods they are."""


class RuledAgent:
    """One agent, as its rules see it; see `ctxkit.rules.run.RuleHost`."""

    def __init__(self, agent: Agent, *, modules: Modules, emit: EmitEvent | None = None) -> None:
        self._agent = agent
        self._modules = modules
        self._emit = emit

    @property
    def memory(self) -> RuleMemory:
        """What is remembered, the running turn counted."""
        state = self._agent.state
        memory = RuleMemory.from_json(state.middle_context.get(SLOT))
        if memory.turn:
            return memory.in_reply(state.reply_id, turns_before=0)
        view = self._view()
        begun = sum(view.messages[turn.start].role == "user" for turn in view.turns)  # a greeting before them is none
        return memory.in_reply(state.reply_id, turns_before=max(0, begun - 1))

    @memory.setter
    def memory(self, memory: RuleMemory) -> None:
        self._agent.state.middle_context[SLOT] = memory.to_json()

    async def facts(self) -> Facts:
        """Measure: by ctxkit's own count where the agent has a `CompressionMiddleware`, else by the host's."""
        agent, settings = self._agent, settings_of(self._agent.context_config)
        if is_alone(agent):
            port = HostPort(agent)
            request = await port.request()
            tokens = await agent.model.count_tokens(list(request.messages), [dict(tool) for tool in request.tools])
            size, per_estimate = port.model.context_size, 1.0
        else:
            engine = await compression_of(agent).engine_of(agent)
            reading = await engine.gauge.read(engine.port, unsure_factor=settings.window.estimate_factor)
            tokens, size = reading.tokens, reading.context_size
            per_estimate = engine.gauge.per_estimate(reading, settings.triggers.chars_per_token)
        view, memory = self._view(), self.memory
        calls = [place.message for place, block in view.blocks() if block.type == "tool_call"]
        turn = view.turns[-1] if view.turns else range(0)
        return Facts(
            turn=memory.turn,
            tokens=tokens,
            pressure_tokens=tokens / per_estimate if per_estimate > 0 else tokens,
            context_size=size,
            output_reserved=size - settings.available_tokens(size),
            messages=sum(map(sum, view.counts)),
            tool_calls=max(memory.tool_calls, sum(index in turn for index in calls)),
            context_tool_calls=len(calls),
        )

    def acting(self, facts: Facts) -> _Hands:
        """Return the agent as an action may change it."""
        return _Hands(agent=self._agent, facts=facts, modules=self._modules, emit=self._emit or _unheard)

    def _view(self) -> View:
        state = self._agent.state
        return View(state.context, agent_name=self._agent.name, reply_id=state.reply_id)


@dataclass(frozen=True, kw_only=True)
class _Hands:
    """What an action may do to an agent; see `ctxkit.rules.RuleAgent`."""

    agent: Agent
    facts: Facts
    modules: Modules
    emit: EmitEvent

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name

    async def compact(
        self, *, strategy: CompactStrategy | None, keep_recent: int | None, summary_max_tokens: int | None
    ) -> None:
        """Compress by the engine that serves the agent, unless it rests behind its last compression."""
        settings = settings_of(self.agent.context_config)
        engine: Engine = await compression_of(self.agent).engine_of(self.agent)
        held = await engine.held_back(settings)
        if held is not None:
            logger.info("no rule compresses the context of agent %r now: %s", self.name, held)
            return
        wanted = _with(settings, strategy=strategy, keep_recent=keep_recent, summary_max_tokens=summary_max_tokens)
        await engine.compress(wanted, reason=Reason.RULE, emit=self.emit, force=True)

    async def inject(self, message: str, *, role: Role) -> None:
        """Put a hint at the end of the context: there a system message is refused, and the running reply must stay last."""
        text = f"<system-reminder>\n{message}\n</system-reminder>" if role == "system" else message
        self.agent.state.append_context(self.name, [HintBlock(hint=text, source=role)])

    async def call(self, module: str, action: str, params: Mapping[str, Any]) -> object:
        """Call what is registered under two names."""
        answer = function_of(self.modules, module, action)(**params)
        return await answer if inspect.isawaitable(answer) else answer

    async def log(self, message: str) -> None:
        """Write a line to ctxkit's log."""
        logger.info("%s", message)


def _with(
    settings: Settings,
    *,
    strategy: CompactStrategy | None,
    keep_recent: int | None,
    summary_max_tokens: int | None,
) -> Settings:
    """Return settings by which the oldest messages leave, as a rule says."""
    ladder = replace(settings.ladder, rungs=(SUMMARY_RUNG,))
    if strategy is not None:
        ladder = replace(ladder, strategy=strategy)
    if keep_recent is not None:
        ladder = replace(ladder, keep_messages=keep_recent)
    summary = settings.summary
    if summary_max_tokens is not None:
        summary = replace(summary, max_tokens=summary_max_tokens)
    return replace(settings, ladder=ladder, summary=summary)


def is_alone(agent: Agent) -> bool:
    """Whether an agent has no `CompressionMiddleware`."""
    try:
        compression_of(agent)
    except ConfigError:
        return True
    return False


def function_of(modules: Modules, module: str, action: str) -> Callable[..., Any]:
    """Return what is registered under two names.

    Raises:
        ConfigError: Nothing is.
    """
    if module not in modules:
        msg = f"module_action.module {module!r} is not registered{did_you_mean(module, modules)}"
        raise ConfigError(msg)
    home = modules[module]
    if isinstance(home, Mapping):
        found, known = home.get(action), list(home)
    else:
        known = [name for name in dir(home) if not name.startswith("_")]
        found = getattr(home, action, None) if action in known else None
    if not callable(found):
        msg = f"module_action.action {action!r} is no function of the module {module!r}{did_you_mean(action, known)}"
        raise ConfigError(msg)
    function: Callable[..., Any] = found
    return function


async def _unheard(_name: str, _value: Mapping[str, Any]) -> None:
    """Nobody listens."""
