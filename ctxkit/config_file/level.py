"""One level of a file: the settings that a mapping gives, by ctxkit's names and by those of the systems it knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from ctxkit.config.checks import did_you_mean
from ctxkit.config_file.brain import Brain, read_brain
from ctxkit.config_file.channels import CHANNELS, read_channels
from ctxkit.config_file.nodes import Entry, Node
from ctxkit.config_file.plain import has_placeholder, is_secret_name, plain
from ctxkit.config_file.report import Report
from ctxkit.config_file.sections import HOST_FIELDS, SECTIONS, checked, fields_of, nested_of
from ctxkit.errors import ConfigError
from ctxkit.profiles import find_profile
from ctxkit.profiles.keys import KEYS, Key, keys_of

CONTEXT_KEYS: Final[Mapping[str, Key]] = keys_of("digitorn")
"""The names that a `context` section may have beside ctxkit's own."""
BRAIN: Final = "summary_brain"
PROFILE: Final = "profile"
OWN_NAMES: Final = (PROFILE, BRAIN, *SECTIONS, *HOST_FIELDS)
"""What ctxkit itself reads at the root of a file, and in `context`."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A value, and where it comes from."""

    value: object
    origin: str
    """`FILE:LINE name`."""
    is_secret: bool = False
    """Whether it is not to be shown: it comes from the environment, or its name says so."""

    def __repr__(self) -> str:
        return f"Setting(value={'***' if self.is_secret else repr(self.value)}, origin={self.origin!r})"


@dataclass(kw_only=True)
class Level:
    """What one level of a file says."""

    report: Report
    settings: dict[str, Setting] = field(default_factory=dict)
    """By ctxkit's names."""
    brain: Brain | None = None
    profile: str | None = None
    systems: set[str] = field(default_factory=set)
    """The systems whose own names were found."""
    _given: dict[str, str] = field(default_factory=dict)
    """Where a brain and a profile were given."""

    @property
    def gives_brain(self) -> bool:
        """Whether it says anything of a brain, `null` included."""
        return BRAIN in self._given

    def read_context(self, node: Node, path: str) -> None:
        """Read a `context` section: the document's names, and ctxkit's own."""
        if node.entries is None:
            if node.items is not None or node.value is not None:
                self.report.tell(node.place, f"{path} is {node.kind}: give a mapping of settings.")
            return
        for key, entry in node.entries.items():
            if key in CONTEXT_KEYS:
                self.take_key(CONTEXT_KEYS[key], entry.node, f"{path}.{key}")
            elif key in OWN_NAMES:
                self.take_own(key, entry, f"{path}.{key}")
            else:
                known = {*CONTEXT_KEYS, *OWN_NAMES}
                self.report.tell(entry.place, f"{path}.{key} is unknown{_near(key, CONTEXT_KEYS, known)}")

    def take_own(self, name: str, entry: Entry, path: str, *, skip: Collection[str] = ()) -> None:
        """Read one of ctxkit's own names.

        Args:
            name: One of `OWN_NAMES`.
            entry: What stands there.
            path: How the place is called in messages.
            skip: Keys of a section that are another system's.
        """
        if name in {BRAIN, PROFILE}:
            first = self._given.setdefault(name, path)
            if first != path:
                self.report.tell(entry.place, f"{path} is given by {first} too: keep one of them.")
            elif name == BRAIN:
                self.brain = read_brain(entry.node, path, self.report)
            else:
                self._take_profile(entry.node, path)
        elif name in HOST_FIELDS:
            self.take(name, entry.node, path)
        elif entry.node.entries is None:
            if entry.node.items is not None or entry.node.value is not None:
                self.report.tell(entry.node.place, f"{path} is {entry.node.kind}: give a mapping of settings.")
        else:
            known = fields_of(SECTIONS[name])
            for key, inner in entry.node.entries.items():
                if key in known:
                    if self._fits_nested(known[key], inner.node, f"{path}.{key}"):
                        self.take(f"{name}.{key}", inner.node, f"{path}.{key}")
                elif key not in skip:
                    self.report.tell(inner.place, f"{path}.{key} {_why_unknown(name, key, known)}")

    def take_key(self, key: Key, node: Node, path: str) -> None:
        """Read one name of another system's."""
        self.systems.add(key.profile)
        is_channels = key.name == CHANNELS
        value = read_channels(node, path, self.report) if is_channels else plain(node, self.report)
        if node.place in self.report.missing:
            return
        try:
            settings = key.settings(value)
        except ConfigError as exc:
            self.report.tell(node.place, f"{path}{str(exc).removeprefix(key.name)}")
            return
        for setting, converted in settings.items():
            self._set(setting, converted, node, path)

    def take(self, setting: str, node: Node, path: str) -> None:
        """Read one setting by ctxkit's name."""
        value = plain(node, self.report)
        if node.place not in self.report.missing:
            self._set(setting, value, node, path)

    def _set(self, setting: str, value: object, node: Node, path: str) -> None:
        """Check a value and keep it; the same setting by two names is refused."""
        before = self.settings.get(setting)
        if before is not None:
            self.report.tell(node.place, f"{path} sets {setting}, as {before.origin} does: keep one of them.")
            return
        try:
            value = checked(setting, value)
        except ConfigError as exc:
            self.report.tell(node.place, f"{path} {exc}")
            return
        secret = has_placeholder(node) or is_secret_name(path)
        origin = f"{self.report.path}:{node.place.line} {path}"
        self.settings[setting] = Setting(value=value, origin=origin, is_secret=secret)

    def _take_profile(self, node: Node, path: str) -> None:
        name = plain(node, self.report)
        try:
            self.profile = find_profile(str(name) if node.entries is None and node.items is None else node.kind).name
        except ConfigError as exc:
            self.report.tell(node.place, f"{path}{str(exc).removeprefix(PROFILE)}")

    def _fits_nested(self, hint: object, node: Node, path: str) -> bool:
        """Tell of unknown names in a mapping that stands for an object, such as a price; return whether there are none."""
        kind = nested_of(hint)
        if kind is None or node.entries is None:
            return True
        known = [each.name for each in fields(kind)]
        unknown = {key: entry for key, entry in node.entries.items() if key not in known}
        for key, entry in unknown.items():
            self.report.tell(entry.place, f"{path}.{key} is unknown{did_you_mean(key, known)}")
        return not unknown


def _why_unknown(section: str, key: str, known: Collection[str]) -> str:
    if (section, key) == ("summary", "model"):
        return f"takes an object: describe the model by {BRAIN}."
    is_code = key in {each.name for each in fields(SECTIONS[section])}
    if is_code:
        return "takes code, which cannot stand in a file: set it in your program."
    return f"is unknown{did_you_mean(key, known)}"


def _near(key: str, first: Collection[str], known: Collection[str]) -> str:
    """Return the question that names the nearest name, of the first ones where one of them is near."""
    asked = did_you_mean(key, first)
    return asked if asked.startswith(":") else did_you_mean(key, known)


OTHER_KEYS: Final[Mapping[str, Key]] = {name: key for name, key in KEYS.items() if key.profile != "digitorn"}
"""The names of other systems that stand at the root of a file, or below it where they have dots."""
