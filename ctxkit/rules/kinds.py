"""The conditions and actions that rules in files may name, own ones among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ctxkit.errors import ConfigError
from ctxkit.rules._base import Action, Condition
from ctxkit.rules.actions import CompactContext, InjectMessage, LogMessage, ModuleAction
from ctxkit.rules.conditions import Always, ContextPressure, MessageCount, ToolCalls, TurnCount

_CONDITIONS: Final[Mapping[str, type[Any]]] = {
    "context_pressure": ContextPressure,
    "turn_count": TurnCount,
    "tool_calls": ToolCalls,
    "message_count": MessageCount,
    "always": Always,
}
_ACTIONS: Final[Mapping[str, type[Any]]] = {
    "compact_context": CompactContext,
    "inject_message": InjectMessage,
    "module_action": ModuleAction,
    "log": LogMessage,
}
_SAYS_WHICH: Final = "type"

Kind = TypeVar("Kind", bound=type[Any])


class RuleKinds:
    """Conditions and actions by the name that a file's `type` gives; begins with ctxkit's own.

    An own kind is a dataclass: its fields are what may stand beside `type`. What is registered here is known here alone.
    """

    def __init__(self) -> None:
        self._conditions = dict(_CONDITIONS)
        self._actions = dict(_ACTIONS)

    @property
    def conditions(self) -> Mapping[str, type[Any]]:
        """The conditions by name."""
        return MappingProxyType(self._conditions)

    @property
    def actions(self) -> Mapping[str, type[Any]]:
        """The actions by name."""
        return MappingProxyType(self._actions)

    def condition(self, name: str) -> Callable[[Kind], Kind]:
        """Register a condition: a dataclass with a method `is_met`. Use it as a decorator.

        Raises:
            ConfigError: The name is taken, or the class is none of that kind.
        """
        return lambda kind: self._register(self._conditions, name, kind, Condition, "is_met")

    def action(self, name: str) -> Callable[[Kind], Kind]:
        """Register an action: a dataclass with a method `act`. Use it as a decorator.

        Raises:
            ConfigError: The name is taken, or the class is none of that kind.
        """
        return lambda kind: self._register(self._actions, name, kind, Action, "act")

    @staticmethod
    def _register(known: dict[str, type[Any]], name: str, kind: Kind, what: type, method: str) -> Kind:
        word = what.__name__.lower()
        if not isinstance(name, str) or not name or name in known:
            msg = f"the {word}'s name is {name!r}: give one that is none of {', '.join(known)}."
            raise ConfigError(msg)
        if not (isinstance(kind, type) and is_dataclass(kind) and callable(getattr(kind, method, None))):
            msg = f"the {word} {name!r} is {kind!r}: give a dataclass that has a method {method}."
            raise ConfigError(msg)
        if _SAYS_WHICH in kind.__dataclass_fields__:
            msg = (
                f"the {word} {name!r} has a field {_SAYS_WHICH!r}, which says in a file of which kind it is: rename it."
            )
            raise ConfigError(msg)
        known[name] = kind
        return kind
