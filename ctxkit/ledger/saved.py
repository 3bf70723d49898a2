"""A ledger as small plain JSON, and back."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ctxkit.ledger.entries import Command, Failure, Job, Mention, Tested, Touch
from ctxkit.ledger.lines import is_strict

if TYPE_CHECKING:
    from ctxkit.ledger.fold import Ledger

T = TypeVar("T")

VERSION: Final = 1
JSON_BYTES: Final = 28_000
"""Default bound of a ledger's JSON: with the rest of the summary's state it fits the 64 kB that an agent saves a turn."""

# Shares of the bound, in parts of 32: each is only used up where there is so much to say.
_CONSTRAINTS_PARTS: Final = 8
_FILES_PARTS: Final = 6
_COMMANDS_PARTS: Final = 2
_ERRORS_PARTS: Final = 1
_FAILURES_PARTS: Final = 4
_TESTS_PARTS: Final = 1
_JOBS_PARTS: Final = 1
_PROMISES_PARTS: Final = 1
_LINES_PARTS: Final = 4
_PARTS: Final = 32

_JOB_STATES: Final = frozenset({"waiting", "running", "over"})
_TEST_STATES: Final = frozenset({"passed", "failed", "skipped"})


def ledger_json(ledger: "Ledger", limit_bytes: int) -> dict[str, Any]:
    """Return plain JSON of at most about `limit_bytes` in UTF-8; what ranks lowest is left out."""
    part = limit_bytes // _PARTS
    facts: dict[str, Any] = {
        "constraints": _newest(ledger.constraints, part * _CONSTRAINTS_PARTS, first=is_strict),
        "commands": _newest([list(command) for command in ledger.commands], part * _COMMANDS_PARTS),
        "errors": _newest(ledger.errors, part * _ERRORS_PARTS),
        "failures": _newest(
            [[list(key), *failure] for key, failure in ledger.failures.items()],
            part * _FAILURES_PARTS,
            first=lambda item: not item[4],
        ),
        "tests": _newest(_rows(ledger.tests), part * _TESTS_PARTS, first=lambda item: item[1] == "failed"),
        "jobs": _newest(_rows(ledger.jobs), part * _JOBS_PARTS, first=lambda item: item[2] != "over"),
        "promises": _newest(ledger.promises, part * _PROMISES_PARTS),
    }
    files = _newest(
        [[path, done, *ledger.touches.get(path, ())] for path, done in ledger.files.items()],
        part * _FILES_PARTS,
        first=lambda item: item[1] != "read",
    )
    facts["files"] = {path: row for path, *row in files}
    room = limit_bytes - sum(json_bytes(said) for said in facts.values())
    lines: dict[str, int] = {}
    lines_room = part * _LINES_PARTS
    identifiers: list[list[object]] = []
    for name in ledger.ranked():
        blocks, used, newest, line = ledger.identifiers[name]
        if line and line not in lines and lines_room > 0:
            lines_room -= json_bytes(line)
            room -= json_bytes(line)
            lines[line] = len(lines)
        entry = [name, blocks, used, newest, *([lines[line]] if line in lines else [])]
        room -= json_bytes(entry)
        if room < 0:
            break
        identifiers.append(entry)
    return {"version": VERSION, "step": ledger.step, "identifiers": identifiers, "lines": list(lines), **facts}


def parts_of_json(data: object) -> dict[str, Any]:
    """Return the fields of a ledger from its JSON; what cannot be read is left out, never refused."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        return {}
    lines = _texts(data.get("lines"))
    mentions: dict[str, Mention] = {}
    for entry in _list_of(data.get("identifiers")):
        match entry:
            case [str(name), int(blocks), int(used), int(newest)]:
                mentions[name] = Mention(blocks, used, newest)
            case [str(name), int(blocks), int(used), int(newest), int(line)]:
                mentions[name] = Mention(blocks, used, newest, lines[line] if 0 <= line < len(lines) else "")
    step = data.get("step")
    files, touches = _files_of(data.get("files"))
    return {
        "step": step if isinstance(step, int) else 0,
        "identifiers": mentions,
        "files": files,
        "touches": touches,
        "commands": tuple(one for row in _list_of(data.get("commands")) if (one := _command_of(row)) is not None),
        "errors": _texts(data.get("errors")),
        "failures": dict(found for row in _list_of(data.get("failures")) if (found := _failure_of(row)) is not None),
        "tests": {
            row[0]: Tested(row[1], row[2])
            for row in _list_of(data.get("tests"))
            if _is_row(row, str, str, int) and row[1] in _TEST_STATES
        },
        "jobs": {
            row[0]: Job(row[1], row[2], row[3])
            for row in _list_of(data.get("jobs"))
            if _is_row(row, str, str, str, int) and row[2] in _JOB_STATES
        },
        "promises": _texts(data.get("promises")),
        "constraints": _texts(data.get("constraints")),
    }


def _files_of(files: object) -> tuple[dict[str, str], dict[str, Touch]]:
    """Return files and touches; a state of before has the operation alone."""
    done: dict[str, str] = {}
    touches: dict[str, Touch] = {}
    for path, row in files.items() if isinstance(files, Mapping) else ():
        match row:
            case str(operation) | [str(operation)]:
                done[str(path)] = operation
            case [str(operation), int(step), str(digest)]:
                done[str(path)] = operation
                touches[str(path)] = Touch(step, digest)
    return done, touches


def _command_of(row: object) -> Command | None:
    match row:
        case [str(text), str(outcome)]:
            return Command(text, outcome)
        case [str(text), str(outcome), int() | None as code, str(first)]:
            return Command(text, outcome, code, first)
    return None


def _failure_of(row: object) -> tuple[tuple[str, ...], Failure] | None:
    match row:
        case [list(key), str(what), str(said), int(step), int(resolved), str(call_id)] if all(
            isinstance(word, str) for word in key
        ):
            return tuple(key), Failure(what, said, step, resolved, call_id)
    return None


def _is_row(row: object, *types: type) -> bool:
    return isinstance(row, list) and len(row) == len(types) and all(map(isinstance, row, types))


def _rows(entries: Mapping[str, tuple[Any, ...]]) -> list[list[Any]]:
    return [[name, *entry] for name, entry in entries.items()]


def json_bytes(value: object) -> int:
    """Return the bytes of a value as JSON in a list."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) + 2


def _newest(items: Sequence[T], limit_bytes: int, *, first: Callable[[T], bool] | None = None) -> list[T]:
    """Return the newest items whose JSON has at most so many bytes, oldest of them first.

    Args:
        items: Oldest first.
        limit_bytes: Most bytes.
        first: Tells the items that go before all others.
    """
    order = sorted(range(len(items)), key=lambda at: (first is not None and not first(items[at]), -at))
    kept: list[int] = []
    for at in order:
        limit_bytes -= json_bytes(items[at])
        if limit_bytes < 0:
            break
        kept.append(at)
    return [items[at] for at in sorted(kept)]


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(entry for entry in _list_of(value) if isinstance(entry, str))
