"""Rules from plain data, as files have them: `{id, on, condition: {type, ...}, action: {type, ...}, cooldown}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, NamedTuple

from ctxkit.config.checks import did_you_mean
from ctxkit.errors import ConfigError
from ctxkit.rules.actions import CompactContext
from ctxkit.rules.conditions import Always
from ctxkit.rules.kinds import RuleKinds
from ctxkit.rules.rule import Rule, check_ids

_FIELDS: Final = tuple(field.name for field in fields(Rule))
_NEEDED: Final = ("id", "condition", "action")
_ANY: Final[dict[str, Any]] = {"id": "any", "condition": Always(), "action": CompactContext()}
_NAMED: Final = re.compile(r"^\w+\.(\w+) is ")
"""How the checks of a section name the field that they refuse."""


class Problem(NamedTuple):
    """What is wrong with plain data, and where in it."""

    path: tuple[str | int, ...]
    """Keys and indices that lead there; where a key is unknown, it is the last."""
    text: str
    """What is wrong and what to do, to be read behind the name of the place."""


def rules_of(data: object, *, kinds: RuleKinds | None = None) -> tuple[Rule, ...]:
    """Return rules from plain data: a sequence of mappings.

    Args:
        data: What a file or a literal has.
        kinds: The conditions and actions that may be named; ctxkit's own where unset.

    Raises:
        ConfigError: Something is wrong with it; the message names all of it.
    """
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Sequence):
        msg = f"rules are {data!r}: give a sequence of mappings."
        raise ConfigError(msg)
    rules: list[Rule] = []
    said: list[str] = []
    for index, each in enumerate(data):
        rule, problems = read_rule(each, kinds or RuleKinds())
        said += [f"{'.'.join(map(str, ('rules', index, *problem.path)))} {problem.text}" for problem in problems]
        if rule is not None:
            rules.append(rule)
    if said:
        raise ConfigError("\n".join(said))
    check_ids(rules)
    return tuple(rules)


def read_rule(data: object, kinds: RuleKinds) -> tuple[Rule | None, list[Problem]]:
    """Return the rule that a mapping describes, and what is wrong with it: without a rule, at least one problem."""
    if not isinstance(data, Mapping):
        return None, [Problem((), f"is {data!r}: give a mapping with {', '.join(_NEEDED)}.")]
    problems = _misfits(data, _FIELDS, _NEEDED)
    parts: dict[str, Any] = {key: value for key, value in data.items() if key in _FIELDS}
    for name, known in (("condition", kinds.conditions), ("action", kinds.actions)):
        if name in parts:
            parts[name], found = _read_kind(parts[name], known)
            problems += [Problem((name, *problem.path), problem.text) for problem in found]
    for name in ("id", "on", "cooldown"):
        if name in parts:
            _made(Rule, {**_ANY, name: parts[name]}, problems)
    return (None if problems else Rule(**parts)), problems


def _read_kind(data: object, known: Mapping[str, type[Any]]) -> tuple[object, list[Problem]]:
    """Return the condition or action that a mapping describes, and what is wrong with it."""
    if not isinstance(data, Mapping):
        return None, [Problem((), f"is {data!r}: give a mapping with a type among {', '.join(known)}.")]
    name = data.get("type")
    if name is None:
        return None, [Problem((), f"has no type: give one of {', '.join(known)}.")]
    kind = known.get(name) if isinstance(name, str) else None
    if kind is None:
        return None, [Problem(("type",), f"is {name!r}, which is unknown{did_you_mean(str(name), known)}")]
    mine = {field.name: field for field in fields(kind) if field.init}
    needed = [name for name, field in mine.items() if field.default is MISSING and field.default_factory is MISSING]
    problems = _misfits(data, ("type", *mine), needed)
    given = {key: value for key, value in data.items() if key in mine}
    return (None if problems else _made(kind, given, problems)), problems


def _misfits(data: Mapping[Any, Any], known: Sequence[str], needed: Sequence[str]) -> list[Problem]:
    """Return which keys of a mapping are unknown, and which are missing."""
    unknown = [
        Problem((key if isinstance(key, str | int) else str(key),), f"is unknown{did_you_mean(str(key), known)}")
        for key in data
        if key not in known
    ]
    return unknown + [Problem((), f"has no {name}: give it.") for name in needed if name not in data]


def _made(kind: type[Any], given: Mapping[str, Any], problems: list[Problem]) -> Any:
    """Return what is made of a kind's fields; None with a problem where it refuses them."""
    try:
        return kind(**given)
    except ConfigError as exc:
        problems.append(_located(str(exc)))
    except Exception as exc:  # noqa: BLE001 - an own kind may check itself in any way
        problems.append(Problem((), f"cannot be used: {type(exc).__name__}: {exc}"))
    return None


def _located(message: str) -> Problem:
    """Return what a check said, at the field that it names."""
    named = _NAMED.match(message)
    return Problem((), message) if named is None else Problem((named[1],), message[named.end() - 3 :])
