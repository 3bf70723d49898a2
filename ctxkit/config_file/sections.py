"""What may stand in a file: ctxkit's sections, the settings of AgentScope's own, and what each field takes."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ctxkit.config import (
    CostConfig,
    HistoryConfig,
    LadderConfig,
    MemoryConfig,
    OffloadConfig,
    OverflowConfig,
    Price,
    PrivacyConfig,
    ResultsConfig,
    SummaryConfig,
    TriggersConfig,
    WindowConfig,
)
from ctxkit.config.checks import at_least, one_of, ratio, refuse, switch, whole
from ctxkit.errors import ConfigError
from ctxkit.sessions import Retention


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """The settings of AgentScope's `ContextConfig`, which stand in no section."""

    trigger_ratio: float = 0.8
    """Compress when the request exceeds this share of the context size, (0, 0.9]."""
    reserve_ratio: float = 0.1
    """Share of the context size that the newest messages keep, (0, 0.9)."""
    tool_result_limit: int = 50_000
    """Most tokens of one tool result in the context, at least 1."""
    context_buffer_ratio: float = 0.2
    """See AgentScope, [0, 1]."""
    compression_prompt: str = ""
    """What the model is asked for a summary."""
    summary_template: str = ""
    """How the fields of the summary are rendered, by `str.format`."""
    summary_schema: Mapping[str, Any] | None = None
    """JSON schema of the summary."""
    compression_fallback_to_truncation: bool = True
    """Go on without the model where a summary cannot be had."""
    compression_tool_enabled: bool = False
    """Give the agent AgentScope's tool for compressing its own context."""
    max_image_num: int = 5
    """Most images in the context, at least 0."""

    def __post_init__(self) -> None:
        ratio(self, "trigger_ratio", to=0.9)
        ratio(self, "reserve_ratio", to=0.9)
        whole(self, "tool_result_limit", least=1)
        at_least(self, "context_buffer_ratio", 0)
        switch(self, "compression_fallback_to_truncation")
        switch(self, "compression_tool_enabled")
        whole(self, "max_image_num", least=0)
        for name in ("compression_prompt", "summary_template"):
            if not isinstance(getattr(self, name), str):
                refuse(self, name, getattr(self, name), "give a text")
        if self.summary_schema is not None and not isinstance(self.summary_schema, Mapping):
            refuse(self, "summary_schema", self.summary_schema, "give a JSON schema of an object")


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """What a file may say of `SessionMiddleware`."""

    restore: Literal["whole", "texts"] = "whole"
    """What comes back of a saved session: everything, or each turn's user text and final reply."""
    max_turns: int = 20
    """Of `texts`: so many turns by six come back, at least 3."""
    timeout_s: float = 30.0
    """Seconds that saving may take, above 0."""

    def __post_init__(self) -> None:
        one_of(self, "restore", ("whole", "texts"))
        whole(self, "max_turns", least=1)
        ratio(self, "timeout_s", to=86_400)


@dataclass(frozen=True, kw_only=True)
class LockSettings:
    """What a file may say of `SessionLocks`."""

    timeout_s: float = 10.0
    """Seconds to wait for another owner, at least 0."""
    max_hold_s: float = 300.0
    """Seconds that an owner may hold a session without a sign of life, above 0."""
    watchdog_s: float = 60.0
    """Seconds between two looks for owners that have held for too long, above 0."""
    release_on_signals: bool = False
    """Let go of everything on SIGINT, SIGTERM, SIGQUIT and SIGABRT."""

    def __post_init__(self) -> None:
        at_least(self, "timeout_s", 0)
        ratio(self, "max_hold_s", to=86_400)
        ratio(self, "watchdog_s", to=86_400)
        switch(self, "release_on_signals")


SECTIONS: Final[Mapping[str, type[Any]]] = {
    "triggers": TriggersConfig,
    "window": WindowConfig,
    "ladder": LadderConfig,
    "results": ResultsConfig,
    "summary": SummaryConfig,
    "overflow": OverflowConfig,
    "history": HistoryConfig,
    "offload": OffloadConfig,
    "privacy": PrivacyConfig,
    "cost": CostConfig,
    "memory": MemoryConfig,
    "session": SessionSettings,
    "retention": Retention,
    "locks": LockSettings,
}
"""The sections that a file may have, by name; `hooks` of `ContextConfig` is code, and a file's `hooks` are rules."""

HOST_FIELDS: Final = tuple(field.name for field in fields(HostSettings))
"""The settings that stand in no section."""


def fields_of(section: type[Any]) -> dict[str, Any]:
    """Return the fields of a section that a file can give, with the type of each; code cannot stand in a file."""
    hints = get_type_hints(section)
    return {field.name: hints[field.name] for field in fields(section) if not _is_code(field, hints[field.name])}


def home_of(setting: str) -> tuple[type[Any], str]:
    """Return the section and the field of a setting, `section.field` or a field of AgentScope's alone."""
    section, _, name = setting.rpartition(".")
    return (SECTIONS[section] if section else HostSettings), name


def checked(setting: str, value: object) -> object:
    """Return a setting's value as its section takes it.

    Raises:
        ConfigError: It takes no such value; the message begins with the value: `is 5: give ...`.
    """
    section, name = home_of(setting)
    try:
        if get_type_hints(section)[name] == Price | None and isinstance(value, Mapping):
            return Price(**value)
        made = section(**{name: value})
    except ConfigError as exc:
        start = f"{section.__name__}.{name} "
        raise ConfigError(str(exc).removeprefix(start)) from exc
    except TypeError as exc:
        msg = f"is {value!r}: {exc}."
        raise ConfigError(msg) from exc
    return getattr(made, name)


def default_of(field: Field[Any]) -> object:
    """Return a field's default; `MISSING` where it must be given."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_code(field: Field[Any], hint: Any) -> bool:
    """Whether a field takes functions or objects that only a program has."""
    if field.name == "rungs":
        return False  # names do
    parts = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    return any(part is object or get_origin(part) is Callable or _takes_code(part) for part in parts)


def _takes_code(part: Any) -> bool:
    origin = get_origin(part)
    is_many = isinstance(origin, type) and issubclass(origin, Collection)
    return is_many and any(get_origin(each) is Callable or each is object for each in get_args(part))


def nested_of(hint: Any) -> type[Any] | None:
    """Return the dataclass that a field holds, if it holds one."""
    parts = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    return next((part for part in parts if isinstance(part, type) and is_dataclass(part)), None)
