"""The JSON schema of the format, for editors, made from the very classes that check it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ctxkit.config import KNOWN_RUNGS
from ctxkit.config_file.brain import Brain
from ctxkit.config_file.level import BRAIN, CONTEXT_KEYS, OTHER_KEYS, PROFILE
from ctxkit.config_file.sections import HOST_FIELDS, SECTIONS, HostSettings, default_of, fields_of, home_of
from ctxkit.profiles import PROFILES
from ctxkit.rules import Rule, RuleKinds

Schema = dict[str, Any]

_PLACEHOLDER: Final[Schema] = {
    "type": "string",
    "pattern": r"^\s*\{\{ *env\.\w{1,200} *\}\}\s*$",
    "description": "A variable of the environment, {{env.NAME}}.",
}
_SIMPLE: Final[Mapping[object, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_ENV: Final[Schema] = {"$ref": "#/$defs/placeholder"}
_MODES: Final[Schema] = {"enum": ["safeguard", "default"]}
"""OpenClaw's modes, which are words here and a factor in ctxkit's own settings."""


def config_schema(*, kinds: RuleKinds | None = None) -> Schema:
    """Return the JSON schema (draft 2020-12) of a file of settings; it leaves bounds and what belongs together to `check`.

    Args:
        kinds: The conditions and actions that rules may name; ctxkit's own where unset.
    """
    own = _own_names()
    rules = {"type": ["array", "null"], "items": {"$ref": "#/$defs/rule"}, "description": "Rules, for RulesMiddleware."}
    context = {"$ref": "#/$defs/context"}
    agent = _object({"id": {"type": "string"}, "brain": _object({"context": context})})
    root = {
        **own,
        "hooks": {"anyOf": [rules, {"type": ["object", "null"]}]},
        "execution": _object({"context": context, "hooks": rules}),
        "agents": {"anyOf": [{"type": ["array", "null"], "items": agent}, {"type": "object"}]},
    }
    for name, key in OTHER_KEYS.items():
        _put(root, name.split("."), _of_key(name, key.fields, key.about))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of ctxkit",
        "description": "What ctxkit reads of a YAML or JSON file; other keys of an application are left alone.",
        "type": "object",
        "properties": root,
        "$defs": {
            "placeholder": _PLACEHOLDER,
            "context": _object({**_context_keys(), **own}, is_closed=True),
            "rule": _rule(kinds or RuleKinds()),
            "brain": _of_class(Brain, fields_of(Brain), needed=("provider", "model")),
            **{name: _of_class(section, fields_of(section)) for name, section in SECTIONS.items()},
        },
    }


def _own_names() -> Schema:
    """Return ctxkit's own names: what stands at the root, and in `context`."""
    host = _of_class(HostSettings, fields_of(HostSettings))["properties"]
    sections: Schema = {name: {"$ref": f"#/$defs/{name}"} for name in SECTIONS}
    # OpenClaw has something else of these names.
    sections |= {name: {"anyOf": [sections[name], {"type": "object"}]} for name in ("session", "memory")}
    return {
        PROFILE: {"enum": list(PROFILES), "description": "The system whose defaults hold."},
        BRAIN: {
            "anyOf": [{"$ref": "#/$defs/brain"}, {"type": "null"}],
            "description": "The model that writes summaries.",
        },
        **sections,
        **{name: host[name] for name in HOST_FIELDS},
    }


def _context_keys() -> Schema:
    return {name: _of_key(name, key.fields, key.about) for name, key in CONTEXT_KEYS.items()}


def _of_key(name: str, settings: Iterable[str], about: str) -> Schema:
    """Return the schema of another system's name: that of the setting which it stands for."""
    if name.endswith("compaction.mode"):
        return {**_MODES, "description": about}
    section, field = home_of(next(iter(settings)))
    return {**_of_type(fields_of(section)[field]), "description": about}


def _rule(kinds: RuleKinds) -> Schema:
    """Return the schema of a rule: one shape for each kind of condition and action."""
    shape = _of_class(
        Rule, {name: hint for name, hint in get_type_hints(Rule).items() if name in {"id", "on", "cooldown"}}
    )
    for name, known in (("condition", kinds.conditions), ("action", kinds.actions)):
        shape["properties"][name] = {"oneOf": [_of_kind(kind, cls) for kind, cls in known.items()]}
    return {**shape, "required": ["id", "condition", "action"]}


def _of_kind(name: str, kind: type[Any]) -> Schema:
    hints = get_type_hints(kind)
    mine = {field.name: hints[field.name] for field in fields(kind) if field.init}
    needed = [field.name for field in fields(kind) if field.init and default_of(field) is MISSING]
    shape = _of_class(kind, mine, needed=("type", *needed))
    return {**shape, "type": "object", "properties": {"type": {"const": name}, **shape["properties"]}}


def _of_class(section: type[Any], hints: Mapping[str, Any], *, needed: Collection[str] = ()) -> Schema:
    """Return the schema of a dataclass; nothing else may stand in it."""
    by_name = {field.name: field for field in fields(section)}
    about = texts_of(section)
    properties = {name: _of_field(by_name[name], hint, about.get(name)) for name, hint in hints.items()}
    shape = _object(properties, is_closed=True)
    shape["description"] = (inspect.getdoc(section) or section.__name__).splitlines()[0]
    return {**shape, "required": list(needed)} if needed else shape


def _of_field(field: Field[Any], hint: Any, about: str | None) -> Schema:
    shape = {"type": "array", "items": {"enum": list(KNOWN_RUNGS)}} if field.name == "rungs" else _of_type(hint)
    shape = {"anyOf": [shape, {"type": "null"}]} if field.name == "rungs" else shape
    default = default_of(field)
    if default is None or isinstance(default, bool | int | float | str):
        shape = {**shape, "default": default}
    return {**shape, "description": about} if about else shape


def _of_type(hint: Any) -> Schema:
    """Return the schema of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        shapes = [_of_type(part) for part in parts if part is not type(None)]
        shapes += [{"type": "null"}] if type(None) in parts else []
        return {"anyOf": [inner for shape in shapes for inner in shape.get("anyOf", [shape])]}
    if origin is Literal:
        return {"anyOf": [{"enum": list(parts)}, _ENV]}
    if hint in _SIMPLE:
        simple = {"type": _SIMPLE[hint]}
        return simple if hint is str else {"anyOf": [simple, _ENV]}
    if isinstance(hint, type) and is_dataclass(hint):
        return _of_class(hint, fields_of(hint))
    return _of_many(origin, parts)


def _of_many(origin: Any, parts: tuple[Any, ...]) -> Schema:
    """Return the schema of a mapping or a list; anything goes where the type says no more."""
    if not isinstance(origin, type) or not issubclass(origin, Collection):
        return {}
    inner = _of_type(parts[-1])
    kind, word = ("object", "additionalProperties") if issubclass(origin, Mapping) else ("array", "items")
    return {"type": kind, **({word: inner} if inner else {})}


def _object(properties: Schema, *, is_closed: bool = False) -> Schema:
    closed = {"additionalProperties": False} if is_closed else {}
    return {"type": ["object", "null"], "properties": properties, **closed}


def _put(properties: Schema, path: list[str], shape: Schema) -> None:
    """Put a shape where a path of keys leads, beside what stands there."""
    name, rest = path[0], path[1:]
    if not rest:
        properties[name] = shape
    elif name not in properties:
        properties[name] = _object({})
        _put(properties[name]["properties"], rest, shape)
    else:
        there = properties[name]
        # Where ctxkit has something of that name too, the other system's stands last.
        there = there["anyOf"][-1] if "anyOf" in there else there
        _put(there.setdefault("properties", {}), rest, shape)


def texts_of(section: type[Any]) -> Mapping[str, str]:
    """Return what is said of each field of a dataclass by the string below it; nothing where the source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(section)))
    except (OSError, TypeError, SyntaxError):
        return {}
    (definition,) = tree.body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts: dict[str, str] = {}
    for field, said in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
            texts[field.target.id] = " ".join(str(said.value.value).split())
    return texts
