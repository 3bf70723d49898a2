"""What a tool call sets out to do, told from the tool's name and the arguments: files, operations, a command."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from ctxkit.ledger.lines import clipped

Operation = Literal["read", "created", "modified", "deleted"]

_JSON_CHARS: Final = 1024 * 1024
"""Longer arguments are taken as text: parsing them would hold the event loop."""

_PATH_ARGUMENTS: Final = (
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "file_name",
    "notebook_path",
    "target_file",
)
_COMMAND_ARGUMENTS: Final = ("command", "cmd", "script", "commands")
_OPERATIONS: Final[tuple[tuple[Operation, re.Pattern[str]], ...]] = (
    ("deleted", re.compile(r"delete|remove|unlink|\brm\b", re.IGNORECASE)),
    ("modified", re.compile(r"edit|replace|update|patch|insert|append|modif|undo", re.IGNORECASE)),
    ("created", re.compile(r"write|create|save|touch|new", re.IGNORECASE)),
    ("read", re.compile(r"read|view|open|cat|show|get|fetch|load|list|glob|grep|search|find|ls", re.IGNORECASE)),
)
_SHELL_TOOL: Final = re.compile(r"bash|shell|terminal|exec|run|command|console|powershell", re.IGNORECASE)
_REDIRECT: Final = re.compile(r"(?<![\d&>])>{1,2}\s*([\w./~\-@+]{2,200})")
_FILE_PROGRAM: Final = re.compile(r"\s*(?:cat|head|tail|less|more|nl|wc|rm|touch|tee|sed|perl|cp|mv)\s")
_READERS: Final = frozenset({"cat", "head", "tail", "less", "more", "nl", "wc"})
_PATH_LIKE: Final = re.compile(r"[\w.~@+\-/]*[\w]", re.ASCII)
_COMMAND_PARSE_CHARS: Final = 2000
_FILES_PER_CALL: Final = 20
_PATH_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one tool call sets out to do."""

    text: str
    """The argument values, decoded, one a line."""
    files: tuple[tuple[str, Operation], ...] = ()
    """Path and operation, in order."""
    command: str | None = None
    """The command line, clipped, where the tool runs one."""


def call_of(name: str, arguments: str) -> Call:
    """Return what a tool call sets out to do.

    Args:
        name: The tool's name.
        arguments: The call's arguments as JSON text; other text is taken as it is.
    """
    values = _parsed(arguments)
    if values is None:
        return Call(text=arguments)
    text = "\n".join(_strings(values))
    command = next(iter(_texts_under(values, _COMMAND_ARGUMENTS)), "")
    if command and (" " in command.strip() or _SHELL_TOOL.search(name)):
        files = dict(islice(_shell_files(command), _FILES_PER_CALL))
        return Call(text=text, files=tuple(files.items()), command=clipped(command))
    operation = _operation_of(command) or _operation_of(name)
    if operation is None:
        return Call(text=text)
    paths = (
        path for path in _texts_under(values, _PATH_ARGUMENTS) if 1 < len(path) <= _PATH_CHARS and "\n" not in path
    )
    return Call(text=text, files=tuple((path, operation) for path in dict.fromkeys(paths)))


def _texts_under(values: Mapping[str, object], keys: Iterable[str]) -> list[str]:
    return [value for key in keys if isinstance(value := values.get(key), str)]


def _parsed(arguments: str) -> Mapping[str, object] | None:
    if len(arguments) > _JSON_CHARS:
        return None
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


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
    if len(name) > 64:  # noqa: PLR2004 - the longest tool name that providers take
        return None
    return next((operation for operation, pattern in _OPERATIONS if pattern.search(name)), None)


def _shell_files(command: str) -> Iterator[tuple[str, Operation]]:
    """Yield the files that the plain commands of a shell line touch; what needs a real shell to tell is left out."""
    heredoc = command.find("<<")
    stop = command.find("\n", heredoc) if heredoc >= 0 else -1
    command = command[: min(stop, _COMMAND_PARSE_CHARS) if stop >= 0 else _COMMAND_PARSE_CHARS]
    for path in _REDIRECT.findall(command):
        if not path.startswith("/dev/"):
            yield path, "modified"
    for part in re.split(r"&&|\|\||[;|\n]", _REDIRECT.sub(" ", command)):
        if not _FILE_PROGRAM.match(part):
            continue
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            continue
        if words:
            yield from _command_files(words[0], [w for w in words[1:] if _is_path(w)], in_place="-i" in words)


def _is_path(word: str) -> bool:
    return len(word) > 1 and not word.startswith("-") and _PATH_LIKE.fullmatch(word) is not None


def _command_files(program: str, paths: list[str], *, in_place: bool) -> Iterator[tuple[str, Operation]]:
    named = [path for path in paths if "/" in path or "." in path]
    if program in _READERS:
        yield from ((path, "read") for path in named)
    elif program == "rm":
        yield from ((path, "deleted") for path in paths)
    elif program == "touch":
        yield from ((path, "created") for path in paths)
    elif program == "tee" or (program in {"sed", "perl"} and in_place):
        yield from ((path, "modified") for path in named)
    elif program in {"cp", "mv"} and len(paths) > 1:
        if program == "mv":
            yield from ((path, "deleted") for path in paths[:-1])
        yield paths[-1], "created"
