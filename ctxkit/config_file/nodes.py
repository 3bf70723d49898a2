"""YAML and JSON with the place of each key and value kept; bounded, without code, duplicate keys refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

MOST_BYTES: Final = 256 * 1024
"""A larger file is refused: settings are small, and reading YAML takes seconds a megabyte."""
MOST_NODES: Final = 50_000
"""So many values, those that aliases stand for counted each time: a few lines of aliases can stand for billions."""
MOST_DEPTH: Final = 60

_TAG: Final = "tag:yaml.org,2002:"
_LEFT_OUT: Final = frozenset({f"{_TAG}timestamp", f"{_TAG}value"})
"""Plain scalars that YAML 1.1 makes more of than texts; here a date is a text."""


class Place(NamedTuple):
    """Where something stands in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value of a file, and where it stands."""

    place: Place
    value: str | int | float | bool | None = None
    """Of a scalar."""
    items: tuple[Node, ...] | None = None
    """Of a list; None of anything else."""
    entries: dict[str, Entry] | None = None
    """Of a mapping, by key; None of anything else."""

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "a mapping" if self.entries is not None else "a list" if self.items is not None else "a value"


class Entry(NamedTuple):
    """A key of a mapping, and its value."""

    place: Place
    node: Node


Tell = Callable[[Place, str], None]
"""Takes what is wrong, and where."""


class UnreadableError(Exception):
    """The text is neither YAML nor JSON, or too much of it."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """Composes nodes; constructs nothing."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _LEFT_OUT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SCALARS: Final[dict[str, Callable[[yaml.ScalarNode], Any]]] = {
    f"{_TAG}null": lambda _: None,
    f"{_TAG}bool": yaml.constructor.SafeConstructor().construct_yaml_bool,
    f"{_TAG}int": yaml.constructor.SafeConstructor().construct_yaml_int,
    f"{_TAG}float": yaml.constructor.SafeConstructor().construct_yaml_float,
}


def parse(text: str, *, is_json: bool, tell: Tell) -> Node | None:
    """Return the root of a text; None where there is nothing in it.

    Args:
        text: YAML, or JSON.
        is_json: Whether it must be JSON.
        tell: Takes what is wrong in a text that can be read all the same, such as a key that stands there twice.

    Raises:
        UnreadableError: It cannot be read, or there is too much in it.
    """
    try:
        if is_json:
            json.loads(text)
            text = text.replace("\t", " ")  # none stands inside of a JSON string; YAML takes no tabs
        composed = yaml.compose(text, Loader=_Loader)
        return None if composed is None else _Tree(text, is_json=is_json, tell=tell).node(composed, 0)
    except json.JSONDecodeError as exc:
        raise UnreadableError(Place(exc.lineno, exc.colno), f"this is no JSON: {exc.msg}.") from exc
    except yaml.MarkedYAMLError as exc:
        said = " ".join(filter(None, (exc.context, exc.problem)))
        raise UnreadableError(_place(exc.problem_mark or exc.context_mark), f"this is no YAML: {said}.") from exc
    except (yaml.YAMLError, ValueError) as exc:
        said = " ".join(str(exc).split())
        raise UnreadableError(Place(1, 1), f"this cannot be read: {said}.") from exc
    except RecursionError as exc:
        raise UnreadableError(Place(1, 1), "this is nested too deeply to be settings.") from exc


@dataclass(kw_only=True)
class _Count:
    nodes: int = 0


@dataclass
class _Tree:
    """Makes nodes of what was composed; what an alias stands for is made anew for each alias, and counted."""

    text: str
    is_json: bool = field(kw_only=True)
    tell: Tell = field(kw_only=True)
    count: _Count = field(kw_only=True, default_factory=_Count)

    def node(self, composed: yaml.Node, depth: int) -> Node:
        place = _place(composed.start_mark)
        self.count.nodes += 1
        if self.count.nodes > MOST_NODES or depth > MOST_DEPTH:
            raise UnreadableError(
                place, f"more than {MOST_NODES:,} values, or {MOST_DEPTH} levels, aliases counted: that is no settings."
            )
        if isinstance(composed, yaml.MappingNode):
            return Node(place=place, entries=self._entries(composed, depth))
        if isinstance(composed, yaml.SequenceNode):
            return Node(place=place, items=tuple(self.node(each, depth + 1) for each in composed.value))
        return Node(place=place, value=self._scalar(composed))

    def _entries(self, composed: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key, value in composed.value:
            place = _place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.tell(place, "a key must be a word.")
                continue
            if key.tag == f"{_TAG}merge":
                merged |= self._merged(value, depth) | merged
                continue
            name = str(self._scalar(key)) if self.is_json else str(key.value)
            if name in own:
                self.tell(place, f"{name} stands here twice, first in line {own[name].place.line}: keep one.")
                continue
            own[name] = Entry(place, self.node(value, depth + 1))
        return {**merged, **own}

    def _merged(self, composed: yaml.Node, depth: int) -> dict[str, Entry]:
        """Return what `<<` brings in; of several mappings the first one wins."""
        several = composed.value if isinstance(composed, yaml.SequenceNode) else [composed]
        entries: dict[str, Entry] = {}
        for each in several:
            node = self.node(each, depth + 1)
            if node.entries is None:
                self.tell(node.place, "<< takes a mapping, or a list of mappings.")
            else:
                entries = {**node.entries, **entries}
        return entries

    def _scalar(self, composed: yaml.Node) -> Any:
        if self.is_json:
            return json.loads(self.text[composed.start_mark.index : composed.end_mark.index])
        construct = _SCALARS.get(composed.tag)
        if construct is None or not isinstance(composed, yaml.ScalarNode):
            return str(composed.value)
        try:
            return construct(composed)
        except (ValueError, KeyError, OverflowError):
            self.tell(_place(composed.start_mark), f"this is no {composed.tag.removeprefix(_TAG)}.")
            return None


def _place(mark: yaml.Mark | None) -> Place:
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)
