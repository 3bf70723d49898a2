"""Gathers all that is wrong with a file, each with its place; no value that came from the environment is ever said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctxkit.config_file.nodes import Place

_SHORTEST_SECRET = 3
"""A shorter value from the environment is hidden only where it stands in quotes: it would be found in any text."""
_BOTH_QUOTES = "'\""
"""Where both stand in a text, `repr` escapes the first."""


@dataclass(kw_only=True)
class Report:
    """What is wrong with one file, and what is only odd.

    Args:
        path: The file, as the user named it.
        environment: Where placeholders are looked up.
    """

    path: str
    environment: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict)
    """The variables of the environment that placeholders have named, with their values."""
    missing: set[Place] = field(default_factory=set)
    """Where placeholders stand whose variable there is none of."""
    _problems: list[tuple[Place, str]] = field(default_factory=list)
    _warnings: list[tuple[Place, str]] = field(default_factory=list)

    def tell(self, place: Place, problem: str) -> None:
        """Take note of something that is wrong."""
        self._problems.append((place, problem))

    def warn(self, place: Place, oddity: str) -> None:
        """Take note of something that is odd and stops nothing."""
        self._warnings.append((place, oddity))

    def problems(self) -> list[str]:
        """Return a line for each thing that is wrong, in the order of the file, without what the environment has."""
        return self._lines(self._problems)

    def warnings(self) -> list[str]:
        """Return a line for each thing that is odd, in the order of the file."""
        return self._lines(self._warnings)

    def _lines(self, told: list[tuple[Place, str]]) -> list[str]:
        lines = dict.fromkeys(
            f"{self.path}:{place.line}:{place.column}: {self.hidden(text)}" for place, text in sorted(told)
        )
        return [" ".join(line.split("\n")) for line in lines]

    def hidden(self, text: str) -> str:
        """Return a text with each value from the environment replaced by its placeholder."""
        return hidden(text, self.used)


def hidden(text: str, used: Mapping[str, str]) -> str:
    """Return a text with the values of variables replaced by their placeholders, the longest first.

    Args:
        text: Any text; values are found as they are, and as `repr` writes them, alone or inside of a longer text.
        used: The variables, with their values.
    """
    for name, value in sorted(used.items(), key=lambda item: -len(item[1])):
        inside = (repr(value)[1:-1], repr(_BOTH_QUOTES + value)[1 + len(_BOTH_QUOTES) + 1 : -1], value)
        for form in (repr(value), *(inside if len(value) >= _SHORTEST_SECRET else ())):
            text = text.replace(form, f"{{{{env.{name}}}}}")
    return text
