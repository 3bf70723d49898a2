"""How much of earlier turns, and of one turn's tool calls, there may be; by count, whatever tokens cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctxkit.config.checks import refuse, whole


@dataclass(frozen=True, kw_only=True)
class HistoryConfig:
    """How much of earlier turns, and of one turn's tool calls, there may be; by count, whatever tokens cost."""

    max_user_turns: int | None = None
    """Before a reply begins, older turns than the newest so many leave without a summary; `None` for no limit."""
    channels: Mapping[str, Any] | None = None
    """Limits by session key, as OpenClaw's `channels` has them; what it says of a session wins over `max_user_turns`."""
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
            object.__setattr__(self, "channels", dict(self.channels))
