"""The settings that were changed in an agent's session: kept in its state, and laid over the config that it was given."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ctxkit.commands import Change, Given, checked_changes
from ctxkit.config_file.sections import checked
from ctxkit.errors import ConfigError
from ctxkit.host._sessions import hold_of
from ctxkit.host.context_config import ContextConfig

if TYPE_CHECKING:
    from agentscope.agent import Agent
    from agentscope.agent import ContextConfig as HostContextConfig

logger = logging.getLogger("ctxkit")

SLOT: Final = "ctxkit.commands"
"""Key of the changes in an agent's `middle_context`."""
_SESSION: Final = {"session.restore": "rule", "session.max_turns": "max_turns"}
"""Settings of a `SessionMiddleware` that hold for one session, and what they are called where it keeps them."""


@dataclass(frozen=True)
class _Laid:
    """Changes that were laid over a config."""

    given: HostContextConfig
    changes: Mapping[str, Change]
    made: HostContextConfig


_laid: WeakKeyDictionary[Agent, _Laid] = WeakKeyDictionary()


def changes_in(middle_context: object) -> dict[str, Change]:
    """Return the changes that an agent's state holds; what this version cannot use is left out."""
    return checked_changes(middle_context.get(SLOT) if isinstance(middle_context, Mapping) else None)[0]


def lay_changes(agent: Agent) -> None:
    """Let the changes in an agent's state hold, over the config that its program has given; costs little where they do.

    The config itself, which other agents may have too, stays as it is.
    """
    saved = agent.state.middle_context.get(SLOT)
    laid = _laid.get(agent)
    if not saved and laid is None:
        return
    changes, unusable = checked_changes(saved)
    is_ours = laid is not None and agent.context_config is laid.made
    if is_ours and laid is not None and laid.changes == changes:
        return
    if unusable:
        logger.warning("changed settings of agent %r cannot be used: %s", agent.name, ", ".join(unusable))
    given = laid.given if laid is not None and is_ours else agent.context_config
    try:
        made = _changed(given, changes)
    except ConfigError as exc:
        logger.warning("the changed settings of agent %r do not go with those of its program: %s", agent.name, exc)
        made = given
    _laid[agent] = _Laid(given, changes, made)
    agent.context_config = made


def change(agent: Agent, changes: Mapping[str, Change]) -> None:
    """Let these be the changes of an agent's session.

    Raises:
        ConfigError: They cannot work together; nothing is changed.
    """
    _changed(given_config(agent), changes)
    slot = agent.state.middle_context
    slot[SLOT] = {setting: one.to_json() for setting, one in changes.items()}
    if not changes:
        del slot[SLOT]
    lay_changes(agent)


def given_config(agent: Agent) -> HostContextConfig:
    """Return the config that an agent's program has given, without the changes of its session."""
    laid = _laid.get(agent)
    return laid.given if laid is not None and agent.context_config is laid.made else agent.context_config


def given(agent: Agent, setting: str) -> Given | None:
    """Return what a program has given for a setting; `None` where the agent has no such thing."""
    section, _, name = setting.rpartition(".")
    if setting in _SESSION:
        keeping = getattr(hold_of(agent), "keeping", None)
        return None if keeping is None else Given(value=getattr(keeping, _SESSION[setting]), is_set=True)
    default, config = ContextConfig(), given_config(agent)
    if section and not hasattr(default, section):
        return None
    if not section:
        return Given(value=getattr(config, name, getattr(default, name)), is_set=name in config.model_fields_set)
    value = getattr(getattr(config, section, getattr(default, section)), name)
    return Given(value=value, is_set=value != getattr(getattr(default, section), name))


def session_changes(middle_context: object) -> dict[str, Any]:
    """Return what a saved state says of how its own session is restored, by the names of `Keeping`."""
    changes = changes_in(middle_context)
    return {kept: changes[setting].value for setting, kept in _SESSION.items() if setting in changes}


def _changed(config: HostContextConfig, changes: Mapping[str, Change]) -> HostContextConfig:
    """Return a copy of a config with changes; the config itself where there are none for it.

    Raises:
        ConfigError: They cannot work together.
    """
    fields: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for setting, one in changes.items():
        section, _, name = setting.rpartition(".")
        if setting not in _SESSION:
            (sections.setdefault(section, {}) if section else fields)[name] = checked(setting, one.value)
    if not fields and not sections:
        return config
    own = config
    if not isinstance(own, ContextConfig):
        own = ContextConfig(**{name: getattr(config, name) for name in config.model_fields_set})
    for section, values in sections.items():
        fields[section] = dataclasses.replace(getattr(own, section), **values)
    return own.replace(**fields)
