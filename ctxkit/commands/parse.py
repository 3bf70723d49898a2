"""What is a command, and what is a message that only looks like one."""

from dataclasses import dataclass
from typing import Final

COMMANDS: Final = ("context", "config", "compact", "preview", "undo", "pin", "explain")
"""The names of the commands, each written behind a slash."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command as it was typed."""

    name: str
    """One of `COMMANDS`."""
    argument: str = ""
    """What stands behind it, without spaces around it."""


def parse_command(text: str) -> Command | None:
    """Return the command that a text is; `None` for any other text: other commands, paths, texts of several lines.

    Args:
        text: What a person typed.
    """
    line = text.strip()
    if not line.startswith("/"):
        return None
    first, *rest = line.split(None, 1)
    name = first[1:].lower()
    if name not in COMMANDS or len(line.splitlines()) > 1:
        return None
    return Command(name=name, argument=rest[0] if rest else "")
