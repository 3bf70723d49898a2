"""The reminder behind a summary: which tools there are, and what was accomplished in the parts that left."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxkit.ledger import Ledger

TITLE: Final = "# Reminder (parts of the conversation left the context; this still holds)"
META_TOOL: Final = "reset_tools"
"""AgentScope's tool that switches groups of tools on and off; its parameters are the groups."""

_FILES: Final = 10
_COMMANDS: Final = 3
_NAMES_CHARS: Final = 2000
"""Tools or groups that do not fit into so many characters are counted instead of named."""


def reminder_text(tools: Sequence[Mapping[str, Any]], ledger: Ledger, *, most_tools: int) -> str:
    """Return the reminder; the same tools and ledger always give the same text.

    Args:
        tools: The tool schemas of the request, in the form of OpenAI's API.
        ledger: What was done in the parts that left.
        most_tools: Up to so many tools each is named; of more, their groups are.
    """
    functions = [tool["function"] for tool in tools]
    if len(functions) <= most_tools:
        offered = f"Your tools: {_named([function['name'] for function in functions])}." if functions else ""
    else:
        offered = _categories_text(functions)
    offered += _switches_text(functions)
    return "\n".join([TITLE, *([offered] if offered else []), *_accomplished(ledger)])


def _categories_text(functions: Sequence[Mapping[str, Any]]) -> str:
    """Return what kinds of tools there are, and how many of each."""
    kinds = Counter(_prefix(function["name"]) for function in functions if function["name"] != META_TOOL)
    return f"You have {len(functions)} tools: {_named([f'{name} ({count})' for name, count in sorted(kinds.items())])}."


def _switches_text(functions: Sequence[Mapping[str, Any]]) -> str:
    """Return how to get at the tools that are switched off: few are offered then, though there are many."""
    meta = next((function for function in functions if function["name"] == META_TOOL), None)
    switched = list(meta["parameters"].get("properties", {})) if meta is not None else []
    if not switched:
        return ""
    return f" Groups of tools that `{META_TOOL}` switches on and off: {_named(switched)}; call it when you need one."


def _prefix(name: str) -> str:
    """Return what tools of one origin begin with: `github` of `github__list_issues`, else the name's first word."""
    for separator in ("__", ".", "/", "-", "_"):
        head, found, _ = name.partition(separator)
        if found and head:
            return head
    return name


def _named(names: Sequence[str]) -> str:
    shown: list[str] = []
    room = _NAMES_CHARS
    for name in names:
        room -= len(name) + 2
        if room < 0:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)


def _accomplished(ledger: Ledger) -> list[str]:
    """Return lines that say what was done, newest first."""
    changed = [f"{path} ({done})" for path, done in [*ledger.files.items()][::-1] if done != "read"][:_FILES]
    commands = [
        f"{command.text} -> {command.outcome}" for command in reversed(ledger.commands[-_COMMANDS:]) if command.outcome
    ]
    lines = []
    if changed:
        lines.append(f"Files you changed, newest first: {', '.join(changed)}.")
    if commands:
        lines.append(f"Commands you ran, newest first: {'; '.join(commands)}.")
    return lines
