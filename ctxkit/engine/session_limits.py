"""The settings of one session: what its key says about its history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctxkit.sessions.keys import history_limit

if TYPE_CHECKING:
    from ctxkit.config import Settings


def settings_for(settings: Settings, session_id: str) -> Settings:
    """Return the settings with the history limit that a session's key has in `HistoryConfig.channels`.

    Args:
        settings: The agent's settings.
        session_id: The session; an id that is no key, or that no channel limits, has `HistoryConfig.max_user_turns`.
    """
    history = settings.history
    limit = None if history.channels is None else history_limit(session_id, history.channels)
    return settings if limit is None else replace(settings, history=replace(history, max_user_turns=limit))
