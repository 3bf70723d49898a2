"""Plain values of nodes, with what placeholders stand for put in."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ctxkit.config_file.nodes import Node
from ctxkit.config_file.report import Report

_PLACEHOLDER: Final = re.compile(r"\{\{ *env\.(\w{1,200}) *\}\}")
_SECRET_WORDS: Final = frozenset({"key", "token", "secret", "password", "passwd", "credential", "credentials"})
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")


def plain(node: Node, report: Report) -> Any:
    """Return the plain value of a node; a placeholder that names nothing is told, and stands as it is.

    A value that is nothing but a placeholder may be a number or a truth value too: `max_tokens: "{{env.WINDOW}}"`.
    """
    if node.entries is not None:
        return {key: plain(entry.node, report) for key, entry in node.entries.items()}
    if node.items is not None:
        return [plain(item, report) for item in node.items]
    if not isinstance(node.value, str) or "{{" not in node.value:
        return node.value
    text = _PLACEHOLDER.sub(lambda found: _looked_up(found, node, report), node.value)
    is_all = _PLACEHOLDER.fullmatch(node.value.strip()) is not None and text != node.value
    return _number_or_text(text) if is_all else text


def has_placeholder(node: Node) -> bool:
    """Whether something of a node comes from the environment."""
    if node.entries is not None:
        return any(has_placeholder(entry.node) for entry in node.entries.values())
    if node.items is not None:
        return any(map(has_placeholder, node.items))
    return isinstance(node.value, str) and _PLACEHOLDER.search(node.value) is not None


def is_secret_name(name: str) -> bool:
    """Whether a name says that its value is not to be shown: `api_key`, `authToken`, but not `max_tokens`."""
    return any(word.lower() in _SECRET_WORDS for word in _WORDS.findall(name))


def _looked_up(found: re.Match[str], node: Node, report: Report) -> str:
    name = found[1]
    value = report.environment.get(name)
    if value is None:
        report.missing.add(node.place)
        report.tell(node.place, f"the environment has no {name}, which {{{{env.{name}}}}} names: set it.")
        return found[0]
    report.used[name] = value
    return value


def _number_or_text(text: str) -> object:
    """Return a number or a truth value where a text is one as JSON has it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float) else text
