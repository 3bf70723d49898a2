"""The settings that `/config` knows: by ctxkit's names and by those of other systems, and how a typed value is read."""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ctxkit.commands._base import Change
from ctxkit.config.checks import did_you_mean
from ctxkit.config_file.schema import texts_of
from ctxkit.config_file.sections import HOST_FIELDS, SECTIONS, HostSettings, checked, fields_of, home_of
from ctxkit.errors import ConfigError
from ctxkit.profiles.keys import KEYS, Key

LOCKED: Final = frozenset({"privacy", "memory", "offload", "compression_prompt", "summary_template", "summary_schema"})
"""Settings and sections that a chat may see and not change where nothing else is said: who types there may be anybody."""

_MOST_CHARS: Final = 500
"""A longer value is refused: an agent's state is saved at every turn."""
_SWITCH: Final = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}
_NONE: Final = frozenset({"none", "null"})


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a name stands for."""

    name: str
    """As a person writes it."""
    settings: tuple[str, ...]
    """ctxkit's settings; all of them get the value."""
    key: Key | None = None
    """Of another system's name."""

    def changes(self, text: str) -> dict[str, Change]:
        """Return the changes that a typed value makes.

        Raises:
            ConfigError: It is no value for this; the message says what would be.
        """
        if len(text) > _MOST_CHARS:
            msg = f"{self.name} takes at most {_MOST_CHARS} characters in a chat, not {len(text)}: set it in a file."
            raise ConfigError(msg)
        if self.key is None:
            values: Mapping[str, object] = {name: typed(text, hint_of(name)) for name in self.settings}
        else:
            value = text if self.key.convert is not None else typed(text, hint_of(self.settings[0]))
            values = self.key.settings(value)
        for setting, value in values.items():
            try:
                checked(setting, value)
            except ConfigError as exc:
                msg = f"{self.name} {exc}"
                raise ConfigError(msg) from exc
        return {setting: Change(value=value, by=self.name) for setting, value in values.items()}


@cache
def known_settings() -> frozenset[str]:
    """Return the names of all of ctxkit's settings that can be typed."""
    nested = {f"{section}.{name}" for section, kind in SECTIONS.items() for name in fields_of(kind)}
    return frozenset({*nested, *HOST_FIELDS})


def named(name: str) -> Named:
    """Return what a name stands for.

    Raises:
        ConfigError: Nothing; the message names the nearest name.
    """
    if name in KEYS:
        return Named(name=name, settings=KEYS[name].fields, key=KEYS[name])
    if name in known_settings():
        return Named(name=name, settings=(name,))
    # Of more than a few hundred names nobody wants to read a list.
    near = did_you_mean(name[:100], {*KEYS, *known_settings()})
    msg = f"There is no setting {name[:100]!r}{near if near.startswith(':') else '; /config lists those that are used most.'}"
    raise ConfigError(msg)


def is_in(setting: str, names: Collection[str]) -> bool:
    """Whether a setting is among names of settings and of sections."""
    return setting in names or setting.partition(".")[0] in names


def hint_of(setting: str) -> Any:
    """Return the type of a setting."""
    section, name = home_of(setting)
    return get_type_hints(section)[name]


def typed(text: str, hint: Any) -> object:
    """Return what a person means by a text where something of a type is wanted; the text itself where that is not known.

    Args:
        text: `30`, `0.8`, `on`, `none`, `Read, Bash`, or JSON.
        hint: The type.
    """
    kinds = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    word = text.lower()
    if word in _NONE and type(None) in kinds:
        return None
    if bool in kinds and word in _SWITCH:
        return _SWITCH[word]
    if any(kind is str or get_origin(kind) is Literal for kind in kinds):
        return text
    try:
        return json.loads(text.replace("_", "") if int in kinds or float in kinds else text)
    except (ValueError, RecursionError):
        is_list = any(isinstance(origin := get_origin(kind), type) and _is_list(origin) for kind in kinds)
        return [word.strip() for word in text.split(",")] if is_list and "{" not in text else text


def checked_changes(saved: object) -> tuple[dict[str, Change], list[str]]:
    """Return the changes that JSON holds, and those of its names that this version cannot use.

    Args:
        saved: What was saved, or anything at all.
    """
    changes: dict[str, Change] = {}
    unusable: list[str] = []
    for setting, one in saved.items() if isinstance(saved, Mapping) else ():
        try:
            if setting not in known_settings():
                raise ConfigError(setting)  # noqa: TRY301 - one way out for all that cannot be used
            checked(setting, one["value"])
            changes[setting] = Change(value=one["value"], by=str(one["by"]))
        except (ConfigError, TypeError, KeyError, AttributeError):
            unusable.append(str(setting))
    return changes, unusable


def shown(value: object) -> str:
    """Return a value as a person would type it, in one line."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARS else f"{value[:80]!r}... ({len(value):,} characters)"
    if isinstance(value, frozenset | set | tuple | list):
        return ", ".join(sorted(map(str, value)) if isinstance(value, frozenset | set) else map(str, value)) or "empty"
    return f"{value:,}" if isinstance(value, int) else str(value)[:_MOST_CHARS]


def takes(setting: str) -> str:
    """Return what a setting takes, in the words of its own check."""
    hint = hint_of(setting)
    kinds = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    try:
        checked(setting, _Nothing())
        words = "JSON" if any(get_origin(kind) for kind in kinds) else "a text" if str in kinds else "a value"
    except (ConfigError, TypeError, AttributeError) as exc:
        words = str(exc).rpartition(": give ")[2].rstrip(".") if ": give " in str(exc) else "JSON"
    words = words.replace("True or False", "on or off")
    return f"{words}, or none" if type(None) in kinds and "None" not in words else words


def about(setting: str) -> str:
    """Return what a setting is, as its section says it; reads source the first time, so call it in a thread."""
    section, _, name = setting.rpartition(".")
    return _abouts(section).get(name, "").replace("`", "")


@cache
def _abouts(section: str) -> Mapping[str, str]:
    return texts_of(SECTIONS[section] if section else HostSettings)


def _is_list(origin: type[Any]) -> bool:
    return issubclass(origin, Collection) and not issubclass(origin, Mapping)


class _Nothing:
    """What no setting takes."""

    def __repr__(self) -> str:
        return "nothing"
