"""What commands need to know of an agent, and may do to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ctxkit.config import Settings
    from ctxkit.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting that was changed in a session."""

    value: Any
    """Plain JSON, as a section takes it."""
    by: str
    """The name that it was changed by."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a program has given an agent for a setting."""

    value: object
    is_set: bool
    """Whether it is another than the default."""


class CommandAgent(Protocol):
    """One agent, as commands see it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    @property
    def is_replying(self) -> bool:
        """Whether a reply of the agent runs now; one that waits for a person does not."""
        ...

    @property
    def changes(self) -> Mapping[str, Change]:
        """The settings that were changed in the agent's session, by ctxkit's names, the oldest change first."""
        ...

    def change(self, changes: Mapping[str, Change]) -> None:
        """Let these be the changes of the agent's session, from now on.

        Raises:
            ConfigError: They cannot work together; the changes before stay.
        """
        ...

    def given(self, setting: str) -> Given | None:
        """Return what the program has given for one of ctxkit's settings; `None` where the agent has no such thing."""
        ...

    def settings(self) -> Settings:
        """Return the settings that hold now."""
        ...

    async def engine(self) -> Engine:
        """Return what keeps the agent's context.

        Raises:
            ConfigError: Nothing does.
        """
        ...

    async def remember(self) -> bool:
        """Write the agent's context to its memory, and wait for it; return whether it has one.

        Raises:
            StoreError: It could not be written.
        """
        ...
