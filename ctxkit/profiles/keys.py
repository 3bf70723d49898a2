"""The names that the systems' own configurations have for settings, and the setting of ctxkit that each is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ctxkit.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Key:
    """One name of a system's own, and the settings of ctxkit that it stands for."""

    name: str
    """As a person writes it: `agent_max_context_tokens`, or with dots where it stands in sections."""
    profile: str
    """The system's profile."""
    fields: tuple[str, ...]
    """Settings by their names in `Profile.values`; all of them get the value."""
    about: str
    """What it says, in a few words."""
    convert: Callable[[Any], object] | None = None
    """Makes ctxkit's value of the system's; a `ValueError` says what would do. `None` takes it as it is."""

    def settings(self, value: object) -> dict[str, object]:
        """Return ctxkit's settings for a value of the system's.

        Args:
            value: As the system's own configuration has it, already parsed.

        Raises:
            ConfigError: The system has no such value; what is only out of range is told when a section is made of it.
        """
        try:
            converted = value if self.convert is None else self.convert(value)
        except ValueError as exc:
            msg = f"{self.name} is {value!r}: {exc}."
            raise ConfigError(msg) from exc
        return dict.fromkeys(self.fields, converted)


_MARGINS: Final = {"safeguard": 1.2, "default": 1.0}
"""OpenClaw's modes of compaction to the margin that each gives the history; 1.2 is its SAFETY_MARGIN."""


def _margin(mode: object) -> float:
    """Return the margin of a mode of compaction."""
    if not isinstance(mode, str) or mode not in _MARGINS:
        msg = "give " + " or ".join(map(repr, _MARGINS))
        raise ValueError(msg)
    return _MARGINS[mode]


def _cowagent(name: str, about: str, *fields: str) -> Key:
    return Key(name=name, profile="cowagent", fields=fields, about=about)


def _openclaw(name: str, about: str, *fields: str, convert: Callable[[Any], object] | None = None) -> Key:
    return Key(name=name, profile="openclaw", fields=fields, about=about, convert=convert)


def _digitorn(name: str, about: str, *fields: str) -> Key:
    return Key(name=name, profile="digitorn", fields=fields, about=about)


_ALL: Final = (
    _cowagent("agent_max_context_tokens", "most tokens of the context", "triggers.max_tokens"),
    _cowagent("agent_max_context_turns", "most turns in the context", "triggers.max_turns", "session.max_turns"),
    _cowagent("agent_max_steps", "most tool calls of one turn", "history.max_tool_calls"),
    _openclaw(
        "agents.defaults.compaction.mode",
        "'safeguard' multiplies the history's budget by 1.2",
        "window.history_margin",
        convert=_margin,
    ),
    _openclaw(
        "agents.defaults.compaction.maxHistoryShare", "share of the window for the history", "window.history_ratio"
    ),
    _openclaw(
        "agents.defaults.compaction.reserveTokensFloor", "tokens that are left free", "window.reserve_floor_tokens"
    ),
    _openclaw("agentContextTokens", "most tokens of the window", "window.cap_tokens"),
    _openclaw("channels", "history limits of channels, users and groups", "history.channels"),
    _openclaw("session.maintenance.mode", "'warn' or 'enforce'", "retention.mode"),
    _digitorn("max_tokens", "tokens of the window, 0 to ask the provider", "window.max_tokens"),
    _digitorn("output_reserved", "tokens kept for the answer", "overflow.output_reserve_tokens"),
    _digitorn("strategy", "'truncate' or 'summarize'", "ladder.strategy"),
    _digitorn("keep_recent", "newest messages that stay", "ladder.keep_messages"),
    _digitorn("compression_trigger", "pressure that triggers a compaction", "triggers.pressure_ratio"),
    _digitorn("summary_max_tokens", "most tokens of a summary", "summary.max_tokens"),
    _digitorn("auto_compact", "compact when it is due", "triggers.automatic"),
)

KEYS: Final[Mapping[str, Key]] = MappingProxyType({key.name: key for key in _ALL})
"""All names of other systems by themselves; Digitorn's are those of its `context` section."""


def keys_of(profile: str) -> Mapping[str, Key]:
    """Return the names of one system."""
    return {name: key for name, key in KEYS.items() if key.profile == profile}
