"""How much of earlier turns, and of one turn's tool calls, there may be; by count, whatever tokens cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctxkit.config.checks import refuse, whole

_CHANNEL_LIMITS: Final = ("historyLimit", "dmHistoryLimit")
_USERS: Final = "dms"


@dataclass(frozen=True, kw_only=True)
class HistoryConfig:
    """How much of earlier turns, and of one turn's tool calls, there may be; by count, whatever tokens cost."""

    max_user_turns: int | None = None
    """Before a reply begins, turns before the newest so many leave without a summary, stored first; the turn that begins is
    not counted; `None` for no limit."""
    channels: Mapping[str, Any] | None = None
    """The same limit by session key, as OpenClaw nests it; what it says of a session wins over `max_user_turns`.

    `{"telegram": {"historyLimit": 20, "dmHistoryLimit": 50, "dms": {"ada": {"historyLimit": 5}}}}`: of groups, of persons and
    of one person; 0 is no limit. Other keys of a channel are left out.
    """
    max_tool_calls: int | None = None
    """One turn may have so many tool calls, counted as calls, at least 1; `None` for no limit."""
    old_result_chars: int | None = None
    """Tool results of earlier turns keep head and tail of so many characters, at least 100; `None` leaves them whole."""

    def __post_init__(self) -> None:
        for name, least in (("max_user_turns", 1), ("max_tool_calls", 1), ("old_result_chars", 100)):
            if getattr(self, name) is not None:
                whole(self, name, least=least)
        if self.channels is not None:
            if not isinstance(self.channels, Mapping):
                refuse(self, "channels", self.channels, "give a mapping of channels to their limits, or None")
            limits = {str(name): self._limits(f"channels.{name}", channel) for name, channel in self.channels.items()}
            object.__setattr__(self, "channels", limits)

    def _limits(self, path: str, given: object, *, has_users: bool = True) -> dict[str, Any]:
        """Return the limits of a channel or of a user."""
        if not isinstance(given, Mapping):
            refuse(self, path, given, "give a mapping of limits")
        limits: dict[str, Any] = {}
        for name in _CHANNEL_LIMITS if has_users else _CHANNEL_LIMITS[:1]:
            value = given.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                refuse(self, f"{path}.{name}", value, "give a whole number of turns, 0 for no limit")
            limits[name] = value
        users = given.get(_USERS) if has_users else None
        if users is not None:
            if not isinstance(users, Mapping):
                refuse(self, f"{path}.{_USERS}", users, "give a mapping of users to their limits")
            limits[_USERS] = {
                str(user): self._limits(f"{path}.{_USERS}.{user}", each, has_users=False)
                for user, each in users.items()
            }
        return limits
