"""`/config`: shows the settings of one agent's session, and changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxkit.commands.settings import about, is_in, named, shown, takes
from ctxkit.profiles.keys import keys_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctxkit.commands._base import CommandAgent
    from ctxkit.commands.settings import Named

RESET: Final = "reset"
"""In place of a value: what the program has given holds again."""


class ConfigCommand:
    """Shows and changes the settings of one agent's session.

    Args:
        agent: The agent.
        locked: Settings and sections that may be seen and not changed.
    """

    def __init__(self, agent: CommandAgent, *, locked: Collection[str]) -> None:
        self._agent = agent
        self._locked = frozenset(locked)

    def show(self, name: str) -> str:
        """Return what was changed in the session, or all there is to say of one setting.

        Args:
            name: As a person writes it; empty for what was changed.

        Raises:
            ConfigError: There is no such setting.
        """
        if not name:
            return self._changed()
        found = named(name)
        return "\n".join(line for setting in found.settings for line in self._lines(setting, found))

    def set(self, argument: str) -> str:
        """Change a setting, or change it back.

        Args:
            argument: A name and a value.

        Raises:
            ConfigError: There is no such setting, or it takes no such value; nothing is changed.
        """
        name, text = argument.split(None, 1)
        found = named(name)
        fixed = [setting for setting in found.settings if self._agent.given(setting) is None]
        if len(fixed) == len(found.settings):
            return f"{name} belongs to the program's middlewares, for all their agents: set it there."
        if any(is_in(setting, self._locked) for setting in (name, *found.settings)):
            return f"{name} cannot be changed in a chat: set it in the program, or in its file."
        before = self._agent.changes
        mine = [setting for setting in found.settings if setting not in fixed]
        if text.lower() == RESET:
            self._agent.change({setting: one for setting, one in before.items() if setting not in mine})
        else:
            made = found.changes(text)
            kept = {setting: one for setting, one in before.items() if setting not in mine}
            self._agent.change({**kept, **{setting: made[setting] for setting in mine}})
        return "\n".join(f"{setting} is {self._now(setting)} now, in this session." for setting in mine)

    def _changed(self) -> str:
        changes = self._agent.changes
        if not changes:
            keys = ", ".join(keys_of("cowagent"))
            return (
                "Nothing was changed in this session. /config KEY shows a setting, /config KEY VALUE changes it; "
                f"keys are {keys}, or names like triggers.max_turns."
            )
        lines = [f"  {setting} = {self._now(setting)}{self._by(setting)}{self._was(setting)}" for setting in changes]
        return "\n".join(["Changed in this session:", *lines])

    def _lines(self, setting: str, found: Named) -> list[str]:
        given = self._agent.given(setting)
        if given is None:
            return [f"{setting} belongs to the program's middlewares, for all their agents."]
        change = self._agent.changes.get(setting)
        if change is not None:
            origin = f"changed in this session{self._by(setting)}{self._was(setting)}"
        else:
            origin = "set in the program" if given.is_set else "the default"
        locked = is_in(setting, self._locked)
        alias = f" ({found.name})" if found.name != setting else ""
        return [
            f"{setting}{alias} = {self._now(setting)}: {origin}",
            f"  {about(setting)}",
            f"  takes {takes(setting)}" + ("; not to be changed in a chat" if locked else ""),
        ]

    def _now(self, setting: str) -> str:
        change, given = self._agent.changes.get(setting), self._agent.given(setting)
        if change is not None:
            return shown(change.value)
        return shown(None if given is None else given.value)

    def _by(self, setting: str) -> str:
        change = self._agent.changes[setting]
        return "" if change.by == setting else f", as {change.by}"

    def _was(self, setting: str) -> str:
        given = self._agent.given(setting)
        return "" if given is None else f" (the program has {shown(given.value)})"
