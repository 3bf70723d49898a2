"""Loads a file: what it says of each agent, execution level first, then the agent's own, field by field."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

from ctxkit.config.checks import did_you_mean
from ctxkit.config_file.brain import Brain
from ctxkit.config_file.level import OTHER_KEYS, OWN_NAMES, PROFILE, Level, Setting
from ctxkit.config_file.nodes import MOST_BYTES, Entry, Node, Place, UnreadableError, parse
from ctxkit.config_file.plain import plain
from ctxkit.config_file.report import Report, hidden
from ctxkit.errors import ConfigError, ConfigFileError
from ctxkit.profiles import find_profile
from ctxkit.rules import Rule, RuleKinds, read_rule, with_auto_compact

HOOKS: Final = "hooks"
EXECUTION: Final = "execution"
CONTEXT: Final = "context"
BRAIN_OF_AGENT: Final = "brain"
_ROOTS: Final = (*OWN_NAMES, HOOKS, EXECUTION, *(name for name in OTHER_KEYS if "." not in name))
"""Names at the root that mean something here and in no other program; `agents` is too common a word to ask about."""
_SHARED: Final = frozenset({"session", "memory", HOOKS})
"""Names of ctxkit's that OpenClaw's configuration has for something else."""
_ALIKE: Final = 0.8
"""From this likeness on a name of another program's is asked about; `difflib`'s ratio, (0, 1]."""


@dataclass(frozen=True, kw_only=True)
class LoadedConfig:
    """What a file says of one agent."""

    path: str
    """The file, as it was named."""
    agent: str | None
    """The agent's id; `None` for what holds for all."""
    profile: str
    """The profile that the settings stand on: the one that is named, or that of the system whose names are used."""
    settings: Mapping[str, Setting]
    """What the file itself sets, by `section.field`, or a field of AgentScope's alone."""
    rules: tuple[Rule, ...] = field(default=(), repr=False)
    """The rules, for `RulesMiddleware`; `_auto_compact` among them where Digitorn's `auto_compact` puts it in. Not shown:
    a placeholder may stand in any text of theirs."""
    summary_brain: Brain | None = field(default=None, repr=False)
    """The model that writes summaries; `None` for the agent's own. Not shown either."""
    warnings: tuple[str, ...] = ()
    """What is odd and stops nothing, one line each."""
    _used: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the environment that placeholders have named, with their values."""

    def hide(self, text: str) -> str:
        """Return a text in which what came from the environment is replaced by its placeholder, fit to be shown."""
        return hidden(text, self._used)

    def section(self, name: str) -> dict[str, Any]:
        """Return what the file sets of one section, by field."""
        start = f"{name}."
        return {key.removeprefix(start): each.value for key, each in self.settings.items() if key.startswith(start)}

    def host_fields(self) -> dict[str, Any]:
        """Return what the file sets of AgentScope's own fields."""
        return {key: each.value for key, each in self.settings.items() if "." not in key}

    @property
    def channels(self) -> Mapping[str, Any]:
        """OpenClaw's `channels`, by which history limits are looked up; empty where there are none."""
        channels = self.section("history").get("channels")
        return channels if isinstance(channels, Mapping) else {}


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """A file that was read and found right."""

    path: str
    _root: Level
    _agents: Mapping[str, Level]
    _rules: tuple[Rule, ...] = ()
    _compacts_at: str | None = None
    """Where the first of the rules that compress stands: `FILE:LINE name`."""
    _warnings: tuple[str, ...] = ()
    _used: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def agents(self) -> tuple[str, ...]:
        """The ids of the agents that it names, in order."""
        return tuple(self._agents)

    def config(self, agent: str | None = None) -> LoadedConfig:
        """Return what the file says of an agent.

        Args:
            agent: Its id; `None` takes the only agent that there is, or what holds for all where there are several or none.

        Raises:
            ConfigError: The file names no such agent.
        """
        if agent is None and len(self._agents) == 1:
            (agent,) = self._agents
        if agent is not None and agent not in self._agents:
            among = did_you_mean(agent, self._agents) if self._agents else ": it names none."
            msg = f"{self.path} names no agent {agent!r}{hidden(among, self._used)}"
            raise ConfigError(msg)
        levels = [self._root, *([] if agent is None else [self._agents[agent]])]
        settings = {name: setting for level in levels for name, setting in level.settings.items()}
        profile = next((level.profile for level in reversed(levels) if level.profile is not None), None)
        system = next(iter(set().union(*(level.systems for level in levels))), None)
        brains = [level.brain for level in levels if level.gives_brain]
        loaded = LoadedConfig(
            path=self.path,
            agent=agent,
            profile=profile or system or "default",
            settings=settings,
            rules=self._rules,
            summary_brain=brains[-1] if brains else None,
            warnings=self._warnings,
            _used=self._used,
        )
        return _automatic(loaded, self._compacts_at)


def load_config_file(
    path: str | os.PathLike[str],
    *,
    kinds: RuleKinds | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConfigFile:
    """Load a file of settings: YAML, or JSON where its name ends in `.json`.

    It reads a file, so call it before the event loop runs, or in a thread.

    Args:
        path: The file, at most 256 kB.
        kinds: The conditions and actions that its rules may name; ctxkit's own where unset.
        environment: Where `{{env.NAME}}` is looked up; the process's own where unset.

    Raises:
        ConfigFileError: It cannot be read, or cannot be used; the message has a line for each thing that is wrong.
    """
    name = os.fspath(path)
    report = Report(path=name, environment=os.environ if environment is None else environment)
    root = _parsed(Path(path), report)
    file = _Reader(report=report, kinds=kinds or RuleKinds()).read(root)
    problems = report.problems()
    if problems:
        raise ConfigFileError(problems)
    return file


def _parsed(path: Path, report: Report) -> Node | None:
    """Return the root of a file.

    Raises:
        ConfigFileError: It cannot be read at all.
    """

    def refuse(place: Place, problem: str) -> NoReturn:
        report.tell(place, problem)
        raise ConfigFileError(report.problems())

    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as exc:
        refuse(Place(1, 1), f"this cannot be read: {getattr(exc, 'strerror', None) or exc}.")
    if len(content) > MOST_BYTES:
        refuse(Place(1, 1), f"this is larger than {MOST_BYTES // 1024} kB: that is no file of settings.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        refuse(Place(line, 1), "this is no UTF-8 text: save it as UTF-8.")
    try:
        return parse(text, is_json=path.suffix.lower() == ".json", tell=report.tell)
    except UnreadableError as exc:
        refuse(exc.place, exc.problem)


@dataclass(kw_only=True)
class _Reader:
    """Reads the parts of one file."""

    report: Report
    kinds: RuleKinds
    rules: list[Rule] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    compacts_at: str | None = None

    def read(self, root: Node | None) -> ConfigFile:
        """Return what a file says; what is wrong with it goes to the report."""
        base = Level(report=self.report)
        agents: dict[str, Level] = {}
        if root is not None and root.entries is None:
            self.report.tell(root.place, f"this is {root.kind}: give a mapping of settings.")
        elif root is not None and root.entries is not None:
            entries = root.entries
            others = self._others(root, base)
            self._own(entries, base, is_shared="openclaw" in base.systems and PROFILE not in entries, others=others)
            execution = _entry(entries, EXECUTION)
            if execution is not None and execution.entries is not None:
                self._execution(execution.entries, base)
            self._read_agents(_entry(entries, "agents"), agents)
            self._check_systems(root, base, agents)
        return ConfigFile(
            path=self.report.path,
            _root=base,
            _agents=agents,
            _rules=tuple(self.rules),
            _compacts_at=self.compacts_at,
            _warnings=tuple(self.report.warnings()),
            _used=dict(self.report.used),
        )

    def _others(self, root: Node, base: Level) -> set[str]:
        """Read the names of CowAgent and OpenClaw; return the roots of those that were found."""
        found = set()
        for name, key in OTHER_KEYS.items():
            node: Node | None = root
            for part in name.split("."):
                node = None if node is None or node.entries is None else _entry(node.entries, part)
            if node is not None:
                found.add(name.split(".")[0])
                base.take_key(key, node, name)
        return found

    def _own(self, entries: Mapping[str, Entry], base: Level, *, is_shared: bool, others: set[str]) -> None:
        """Read ctxkit's own names at the root; what is another program's is left alone."""
        for name, entry in entries.items():
            if is_shared and name in _SHARED:
                continue
            if name in OWN_NAMES:
                base.take_own(name, entry, name, skip=("maintenance",) if name == "session" else ())
            elif name == HOOKS:
                self._read_hooks(entry.node, HOOKS)
            elif name == BRAIN_OF_AGENT and CONTEXT in (entry.node.entries or {}):
                self.report.warn(
                    entry.place,
                    f"{name}.{CONTEXT} is left alone, as no agent's: put it into agents[].{name}.{CONTEXT}.",
                )
            elif name not in others:
                self._note_near(name, entry, _ROOTS)

    def _note_near(self, name: str, entry: Entry, known: Iterable[str], path: str = "") -> None:
        """Say so where a name that is left alone is nearly one that is read; one that is read is near to itself."""
        near = get_close_matches(name, known, n=1, cutoff=_ALIKE)
        if near and near[0] != name:
            oddity = f"{path}{name} is left alone, as another program's: did you mean {near[0]}?"
            self.report.warn(entry.place, oddity)

    def _execution(self, entries: Mapping[str, Entry], base: Level) -> None:
        for name, entry in entries.items():
            self._note_near(name, entry, (CONTEXT, HOOKS), f"{EXECUTION}.")
        if CONTEXT in entries:
            base.systems.add("digitorn")
            base.read_context(entries[CONTEXT].node, f"{EXECUTION}.{CONTEXT}")
        if HOOKS in entries:
            base.systems.add("digitorn")
            self._read_hooks(entries[HOOKS].node, f"{EXECUTION}.{HOOKS}")

    def _read_agents(self, node: Node | None, agents: dict[str, Level]) -> None:
        """Read the agents of a list, each with its brain's context; a mapping of that name is OpenClaw's."""
        for index, each in enumerate(() if node is None or node.items is None else node.items):
            entries = each.entries or {}
            named = _entry(entries, "id")
            name = plain(named, self.report) if named is not None else index
            level = Level(report=self.report)
            if str(name) in agents:
                self.report.tell(each.place, f"agents.{index}.id {name!r} stands here twice: give each agent its own.")
                continue
            agents[str(name)] = level
            brain = _entry(entries, BRAIN_OF_AGENT)
            settings = (brain.entries if brain is not None else None) or {}
            for key, entry in settings.items():
                self._note_near(key, entry, (CONTEXT,), f"agents.{index}.brain.")
            if CONTEXT in settings:
                level.systems.add("digitorn")
                level.read_context(settings[CONTEXT].node, f"agents.{index}.brain.{CONTEXT}")

    def _read_hooks(self, node: Node, path: str) -> None:
        if node.items is None:
            if node.entries is not None or node.value is not None:
                self.report.tell(node.place, f"{path} is {node.kind}: give a list of rules.")
            return
        for index, each in enumerate(node.items):
            rule, problems = read_rule(plain(each, self.report), self.kinds)
            for problem in problems:
                where = ".".join(map(str, (path, index, *problem.path)))
                self.report.tell(_place_of(each, problem.path), f"{where} {problem.text}")
            if rule is None:
                continue
            first = self.places.setdefault(rule.id, each.place)
            if first is not each.place:
                self.report.tell(
                    each.place, f"{path}.{index}.id is {rule.id!r}, as in line {first.line}: give it its own."
                )
                continue
            self.rules.append(rule)
            if rule.compacts and self.compacts_at is None:
                # Its id is not said: it may be the environment's.
                self.compacts_at = f"{self.report.path}:{each.place.line} {path}.{index}"

    def _check_systems(self, root: Node, base: Level, agents: Mapping[str, Level]) -> None:
        """Tell where the names of two systems are used and no profile says which defaults hold."""
        systems = sorted(set().union(base.systems, *(level.systems for level in agents.values())))
        if len(systems) > 1 and base.profile is None:
            named = " and ".join(systems)
            self.report.tell(
                root.place, f"the settings of {named} are both used here: say which defaults hold by profile."
            )


def _automatic(loaded: LoadedConfig, compacts_at: str | None) -> LoadedConfig:
    """Return what is loaded with Digitorn's automatic compaction: a rule of its own, or those that were declared alone.

    Args:
        loaded: What the file says.
        compacts_at: Where the first rule that compresses stands; `None` where none does.
    """
    values = find_profile(loaded.profile).values
    effective: dict[str, Any] = {name: value.value for name, value in values.items()}
    effective |= {name: setting.value for name, setting in loaded.settings.items()}
    if (
        loaded.profile != "digitorn"
        or not effective["triggers.automatic"]
        or effective["triggers.pressure_ratio"] is None
    ):
        return loaded
    if compacts_at is not None:
        off = Setting(value=False, origin=f"{compacts_at}, which compresses in its place")
        settings = {**loaded.settings, "triggers.automatic": off}
        return replace(loaded, settings=settings)
    rules = with_auto_compact(
        loaded.rules,
        compression_trigger=effective["triggers.pressure_ratio"],
        strategy=effective["ladder.strategy"],
        keep_recent=effective["ladder.keep_messages"],
        summary_max_tokens=effective["summary.max_tokens"],
    )
    return replace(loaded, rules=rules)


def _place_of(node: Node, path: tuple[str | int, ...]) -> Place:
    """Return the place of a key that a path leads to, or of the last node on the way."""
    place = node.place
    for part in path:
        entry = (node.entries or {}).get(str(part))
        if entry is None:
            break
        node, place = entry.node, entry.node.place if part != path[-1] else entry.place
    return place


def _entry(entries: Mapping[str, Entry], name: str) -> Node | None:
    """Return the value of a key, if it is there."""
    return entries[name].node if name in entries else None
