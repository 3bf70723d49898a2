"""What a tool call sets out to do, told from the tool's name and the arguments: files, operations, a command."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from ctxkit.ledger.adapters import parsed
from ctxkit.ledger.lines import clipped
from ctxkit.ledger.shell import Operation, Work, files_of, works_of

_PATH_ARGUMENTS: Final = (
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "file_name",
    "notebook_path",
    "target_file",
    "paths",
    "files",
)
_MOVED_ARGUMENTS: Final = (("source", "destination"), ("src", "dst"), ("old_path", "new_path"), ("from", "to"))
_CONTENT_ARGUMENTS: Final = ("content", "file_text", "contents", "text")
_COMMAND_ARGUMENTS: Final = ("command", "cmd", "script", "commands")
_OPERATIONS: Final[tuple[tuple[Operation, re.Pattern[str]], ...]] = (
    ("deleted", re.compile(r"delete|remove|unlink|\brm\b", re.IGNORECASE)),
    ("modified", re.compile(r"edit|replace|update|patch|insert|append|modif|undo", re.IGNORECASE)),
    ("created", re.compile(r"write|create|save|touch|new", re.IGNORECASE)),
    ("read", re.compile(r"read|view|open|cat|show|get|fetch|load|head|tail", re.IGNORECASE)),
)
_SEARCH_TOOL: Final = re.compile(r"grep|glob|search|find|list|\bls\b|tree|director(?:y|ies)|folder", re.IGNORECASE)
"""Tools whose path says where to look: it is no file that was read."""
_MOVE_TOOL: Final = re.compile(r"move|rename|copy|\b(?:mv|cp)\b", re.IGNORECASE)
_SHELL_TOOL: Final = re.compile(r"bash|shell|terminal|exec|run|command|console|powershell", re.IGNORECASE)
_FILES_PER_CALL: Final = 20
_PATH_CHARS: Final = 200
_NAME_CHARS: Final = 64
"""The longest tool name that providers take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one tool call sets out to do."""

    text: str
    """The argument values, decoded, one a line."""
    files: tuple[tuple[str, Operation], ...] = ()
    """Path and operation, in order."""
    command: str | None = None
    """The command line, clipped, where the tool runs one."""
    early: tuple[tuple[str, Operation], ...] = ()
    """Of a command, the files that are touched before its last part, and so even where that fails."""
    works: tuple[Work, ...] = ()
    """Of a command, what it is run for."""
    digest: str = ""
    """BLAKE2b of what the whole file holds afterwards, 8 bytes in hex; empty where the call does not say all of it."""


def call_of(name: str, arguments: str) -> Call:
    """Return what a tool call sets out to do.

    Args:
        name: The tool's name.
        arguments: The call's arguments as JSON text; other text is taken as it is.
    """
    values = parsed(arguments)
    if values is None:
        return Call(text=arguments)
    text = "\n".join(_strings(values))
    command = next(iter(_texts_under(values, _COMMAND_ARGUMENTS)), "")
    if command and (" " in command.strip() or _SHELL_TOOL.search(name)):
        return _command_call(text, command)
    operation = _operation_of(command) or operation_of(name)
    moved = _moved(name, values)
    if operation is None or moved:
        return Call(text=text, files=moved)
    paths = [
        path for path in _texts_under(values, _PATH_ARGUMENTS) if 1 < len(path) <= _PATH_CHARS and "\n" not in path
    ]
    whole = next(iter(_texts_under(values, _CONTENT_ARGUMENTS)), None) if operation == "created" else None
    digest = "" if whole is None else blake2b(whole.encode("utf-8", "replace"), digest_size=8).hexdigest()
    files = tuple((path, operation) for path in list(dict.fromkeys(paths))[:_FILES_PER_CALL])
    return Call(text=text, files=files, digest=digest)


def runs_commands(name: str) -> bool:
    """Whether a tool may run commands: what it prints as an exit code is one, and not a line of a file that it read."""
    return _SHELL_TOOL.search(name[:_NAME_CHARS]) is not None or operation_of(name) is None


def operation_of(name: str) -> Operation | None:
    """Return what a tool of this name does to the files that it is given; `None` where it looks for them, or for what else."""
    operation = _operation_of(name)
    return None if operation == "read" and _SEARCH_TOOL.search(name) else operation


def _command_call(text: str, command: str) -> Call:
    found = files_of(command)[:_FILES_PER_CALL]
    return Call(
        text=text,
        files=tuple(dict.fromkeys((path, operation) for path, operation, _ in found)),
        command=clipped(command),
        early=tuple(dict.fromkeys((path, operation) for path, operation, is_early in found if is_early)),
        works=works_of(command),
    )


def _moved(name: str, values: Mapping[str, Any]) -> tuple[tuple[str, Operation], ...]:
    """Return the two files of a tool that moves or copies."""
    if not _MOVE_TOOL.search(name[:_NAME_CHARS]):
        return ()
    for source, target in _MOVED_ARGUMENTS:
        both = _texts_under(values, (source, target))
        if len(both) == 2 and all(1 < len(path) <= _PATH_CHARS for path in both):  # noqa: PLR2004 - from and to
            is_copy = re.search(r"copy|\bcp\b", name, re.IGNORECASE) is not None
            return (both[0], "read" if is_copy else "deleted"), (both[1], "created")
    return ()


def _texts_under(values: Mapping[str, object], keys: Iterable[str]) -> list[str]:
    found: list[str] = []
    for key in keys:
        value = values.get(key)
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
    return found


def _strings(value: object) -> Iterator[str]:
    """Walk the leaf values, not the keys, without recursion: arguments may be nested as deep as the parser allows."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif item is not None and not isinstance(item, bool):
            yield item if isinstance(item, str) else repr(item)


def _operation_of(name: str) -> Operation | None:
    if len(name) > _NAME_CHARS:
        return None
    return next((operation for operation, pattern in _OPERATIONS if pattern.search(name)), None)
