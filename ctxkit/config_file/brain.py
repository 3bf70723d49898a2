"""A brain: which model writes summaries, as a file describes it; the host's room makes a model of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ctxkit.config.checks import at_least, did_you_mean, refuse, whole
from ctxkit.config_file.nodes import Node
from ctxkit.config_file.plain import plain
from ctxkit.config_file.report import Report
from ctxkit.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Brain:
    """A model that a file describes."""

    provider: str
    """Who serves it: `openai`, `anthropic`, `ollama`, ..."""
    model: str
    """The model's name there."""
    backend: str | None = None
    """How it is spoken to where that differs from the provider's own way: `openai_compat`."""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Key, address and what else the provider needs; never shown."""
    temperature: float | None = None
    """Passed to the model, at least 0."""
    top_p: float | None = None
    """Passed to the model, at least 0."""
    max_tokens: int | None = None
    """Most tokens of an answer, at least 1."""
    timeout: float | None = None
    """Seconds that a call may take, at least 0."""
    max_retries: int | None = None
    """Tries of a call that fails, at least 0."""
    context_size: int | None = None
    """Tokens of its window, at least 1; what AgentScope says of it where unset."""

    def __post_init__(self) -> None:
        for name in ("provider", "model"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                refuse(self, name, getattr(self, name), "give a name")
        if self.backend is not None and not isinstance(self.backend, str):
            refuse(self, "backend", self.backend, "give a name")
        if not isinstance(self.config, Mapping):
            refuse(self, "config", "...", "give a mapping with what the provider needs")
        for name, least in (("max_tokens", 1), ("max_retries", 0), ("context_size", 1)):
            if getattr(self, name) is not None:
                whole(self, name, least=least)
        for name in ("temperature", "top_p", "timeout"):
            if getattr(self, name) is not None:
                at_least(self, name, 0)


BRAIN_FIELDS: Final = tuple(field.name for field in fields(Brain))
_NEEDED: Final = ("provider", "model")
_ANY: Final[dict[str, Any]] = dict.fromkeys(_NEEDED, "any")


def read_brain(node: Node, path: str, report: Report) -> Brain | None:
    """Return the brain that a mapping describes; None where it is none, which is told, or `null`."""
    if node.entries is None:
        if node.items is not None or node.value is not None:
            report.tell(node.place, f"{path} is {node.kind}: give a mapping with provider and model.")
        return None
    given: dict[str, Any] = {}
    for key, entry in node.entries.items():
        if key not in BRAIN_FIELDS:
            report.tell(entry.place, f"{path}.{key} is unknown{did_you_mean(key, BRAIN_FIELDS)}")
        else:
            value = plain(entry.node, report)
            if entry.node.place in report.missing or _told_wrong(key, value, entry.node, path, report):
                continue
            if value is not None:
                given[key] = value
    missing = [name for name in _NEEDED if name not in node.entries]
    for name in missing:
        report.tell(node.place, f"{path} has no {name}: give it.")
    return Brain(**given) if all(name in given for name in _NEEDED) else None


def _told_wrong(key: str, value: Any, node: Node, path: str, report: Report) -> bool:
    """Tell what is wrong with one field of a brain; return whether something is."""
    try:
        Brain(**{**_ANY, key: value})
    except ConfigError as exc:
        report.tell(node.place, f"{path}.{str(exc).removeprefix('Brain.')}")
        return True
    return False
