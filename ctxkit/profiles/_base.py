"""What a profile is: values for settings, each with the place in a system's document that it comes from."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Value:
    """A value, and where it comes from."""

    value: object
    source: str
    """File and line of the document, and its words there: `file:line words`."""
    why: str = ""
    """Why the value says what the words say, where that is not plain."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The settings of one system: data, no code."""

    name: str
    about: str
    """What it is, in a sentence."""
    document: str
    """The document that the values come from, as a person would ask for it; empty where there is none."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Settings by name: `section.field` of a section, or a field of AgentScope's `ContextConfig` alone.

    Beside the sections of `ctxkit.ContextConfig` there are `session` (arguments of `SessionMiddleware`), `retention` (of
    `Retention`) and `locks` (of `SessionLocks`). What is not named keeps ctxkit's own default.
    """
    constants: Mapping[str, Value] = field(default_factory=dict)
    """The document's numbers that ctxkit has in every profile, by what they are."""

    def section(self, name: str) -> dict[str, Any]:
        """Return the values of one section by field; empty where the profile says nothing of it."""
        start = f"{name}."
        return {
            key.removeprefix(start): deepcopy(each.value) for key, each in self.values.items() if key.startswith(start)
        }

    def host_fields(self) -> dict[str, Any]:
        """Return the values of the fields that stand in no section."""
        return {key: deepcopy(each.value) for key, each in self.values.items() if "." not in key}
