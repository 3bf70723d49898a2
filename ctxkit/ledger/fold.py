"""The ledger: the facts of many blocks folded into one small record that never forgets by paraphrase."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ctxkit.ledger.facts import Facts, raw_texts, scan_block
from ctxkit.ledger.identifiers import is_opaque
from ctxkit.ledger.lines import clipped

if TYPE_CHECKING:
    from agentscope.message import Msg

T = TypeVar("T")

VERSION: Final = 1
JSON_BYTES: Final = 28_000
"""Default bound of a ledger's JSON: with the rest of the summary's state it fits the 64 kB that an agent saves a turn."""

_MAX_IDENTIFIERS: Final = 4000
_MAX_FILES: Final = 400
_MAX_COMMANDS: Final = 40
_MAX_ERRORS: Final = 24
_FIRST_CONSTRAINTS: Final = 30
_NEWEST_CONSTRAINTS: Final = 50
_PAUSE_CHARS: Final = 32 * 1024
_PAUSE_FACTS: Final = 500
_PAUSE_NAMES: Final = 2000

# What a weight is worth was fitted on recorded agent runs (which identifiers does the agent use again?); near the
# optimum the result hardly moves, so the values are round.
_USED_WEIGHT: Final = 0.5
_LENGTH_WEIGHT: Final = 0.35
_BOILERPLATE_COUNT: Final = 8
_BOILERPLATE_SHARE: Final = 0.3


class Mention(NamedTuple):
    """What is known of one identifier."""

    blocks: int
    """Blocks that name it."""
    used: int
    """Blocks of the assistant that name it."""
    newest: int
    """Step of the newest of those blocks."""
    line: str = ""
    """The newest line in which it stood, where it says nothing without one."""


class Command(NamedTuple):
    """One command line and how it ended."""

    text: str
    outcome: str
    """`"ok"`, `"exit 1: ..."`, `"shows ..."` where errors stand in a result without an exit code, or `""` without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Facts of everything that was folded in; a value: `add` and `merge` return new ones."""

    step: int = 0
    """Blocks folded in so far; the clock by which newer is told from older."""
    identifiers: Mapping[str, Mention] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Path to the last operation that worked, oldest first."""
    commands: Sequence[Command] = ()
    """Oldest first."""
    errors: Sequence[str] = ()
    """Oldest first, each once."""
    constraints: Sequence[str] = ()
    """What the user demands or forbids, verbatim, oldest first."""

    def add(self, *facts: Facts) -> "Ledger":
        """Return a ledger that knows these facts too, given oldest first."""
        fold = _Fold(self)
        for one in facts:
            fold.take(one)
        return fold.ledger()

    def merge(self, later: "Ledger") -> "Ledger":
        """Return a ledger that knows both; what `later` saw counts as newer."""
        fold = _Fold(self)
        fold.take_ledger(later)
        return fold.ledger()

    async def read(self, messages: "Iterable[Msg]") -> "Ledger":
        """Return a ledger that knows these messages too, oldest first, scanned with pauses for the event loop."""
        fold = _Fold(self)
        chars = since = 0
        for message in messages:
            for block in message.content:
                fold.take(await scan_block(block, role=message.role))
                chars += sum(map(len, raw_texts(block)))
                since += 1
                if chars > _PAUSE_CHARS or since > _PAUSE_FACTS:
                    chars = since = 0
                    await asyncio.sleep(0)
        steps = fold.finish()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                ledger: Ledger = done.value
                return ledger
            await asyncio.sleep(0)

    def ranked(self, exclude: "frozenset[str] | set[str]" = frozenset()) -> list[str]:
        """Return the identifiers most likely to be needed again first; the order depends on the ledger only."""
        often = max(_BOILERPLATE_COUNT, _BOILERPLATE_SHARE * self.step)
        scores = [
            (-_score(name, mention.blocks, mention.used, mention.newest, step=self.step), name)
            for name, mention in self.identifiers.items()
            if mention.blocks < often and name not in exclude
        ]
        scores.sort()
        return [name for _, name in scores]

    def to_json(self, limit_bytes: int = JSON_BYTES) -> dict[str, Any]:
        """Return plain JSON of at most about `limit_bytes` in UTF-8; what ranks lowest is left out.

        A third of it at most goes to files, commands, errors and constraints, whose newest stay, an eighth to lines.
        """
        quarter = limit_bytes // 4
        constraints = _newest(self.constraints, quarter // 2)
        commands = _newest([list(command) for command in self.commands], quarter // 4)
        errors = _newest(self.errors, quarter // 4)
        files = dict(_newest(list(self.files.items()), quarter // 2))
        room = limit_bytes - sum(_json_bytes(part) for part in (constraints, commands, errors, files))
        lines: dict[str, int] = {}
        lines_room = quarter // 2
        identifiers: list[list[object]] = []
        for name in self.ranked():
            blocks, used, newest, line = self.identifiers[name]
            if line and line not in lines and lines_room > 0:
                lines_room -= _json_bytes(line)
                room -= _json_bytes(line)
                lines[line] = len(lines)
            entry = [name, blocks, used, newest, *([lines[line]] if line in lines else [])]
            room -= _json_bytes(entry)
            if room < 0:
                break
            identifiers.append(entry)
        return {
            "version": VERSION,
            "step": self.step,
            "identifiers": identifiers,
            "lines": list(lines),
            "files": files,
            "commands": commands,
            "errors": errors,
            "constraints": constraints,
        }

    @classmethod
    def from_json(cls, data: object) -> "Ledger":
        """Return the ledger that `to_json` wrote; what cannot be read is left out, never refused."""
        if not isinstance(data, Mapping) or data.get("version") != VERSION:
            return cls()
        lines = _texts(data.get("lines"))
        mentions: dict[str, Mention] = {}
        for entry in _list_of(data.get("identifiers")):
            match entry:
                case [str(name), int(blocks), int(used), int(newest)]:
                    mentions[name] = Mention(blocks, used, newest)
                case [str(name), int(blocks), int(used), int(newest), int(line)]:
                    mentions[name] = Mention(blocks, used, newest, lines[line] if 0 <= line < len(lines) else "")
        step, files = data.get("step"), data.get("files")
        return cls(
            step=step if isinstance(step, int) else 0,
            identifiers=mentions,
            files={str(path): str(done) for path, done in files.items()} if isinstance(files, Mapping) else {},
            commands=tuple(
                Command(*c) for c in map(_texts, _list_of(data.get("commands"))) if len(c) == len(Command._fields)
            ),
            errors=_texts(data.get("errors")),
            constraints=_texts(data.get("constraints")),
        )


class _Fold:
    """A ledger in the making."""

    def __init__(self, base: Ledger) -> None:
        self._step = base.step
        self._mentions: dict[str, Mention] = dict(base.identifiers)
        # Numbers by name and no object a name: tens of thousands of those would have the garbage collector run.
        self._blocks: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._newest: dict[str, int] = {}
        self._lines: dict[str, str] = {}
        self._files = dict(base.files)
        self._commands = list(base.commands)
        self._errors = dict.fromkeys(base.errors)
        self._constraints = dict.fromkeys(base.constraints)
        self._open: dict[str, tuple[Facts, int]] = {}

    def take(self, facts: Facts) -> None:
        self._step = step = self._step + 1
        self._blocks.update(facts.identifiers)
        self._newest.update(dict.fromkeys(facts.identifiers, step))
        if facts.speaker == "assistant":
            self._used.update(facts.identifiers)
        self._lines.update(facts.lines)
        if facts.constraints:
            self._renew(self._constraints, facts.constraints)
        if facts.errors:
            self._renew(self._errors, facts.errors)
        if facts.call is not None:
            self._take_call(facts)
        elif facts.is_result and facts.call_id in self._open:
            self._take_result(facts)

    def _take_call(self, facts: Facts) -> None:
        call = facts.call
        if call is None or (call.command is None and not call.files):
            return
        if call.command is not None:
            self._commands.append(Command(call.command, ""))
        if facts.call_id is not None:
            self._open[facts.call_id] = (facts, len(self._commands) - 1)

    def _take_result(self, facts: Facts) -> None:
        """Only what worked has touched a file: operations count when their result is in."""
        started, place = self._open.pop(str(facts.call_id))
        call = started.call
        if call is None:
            return
        if call.command is not None:
            self._commands[place] = Command(call.command, _outcome_of(facts))
        if facts.problem is None:
            for path, operation in call.files:
                before = self._files.pop(path, None)
                # A file that was changed stays "modified" when it is only read afterwards, and one that was there
                # before cannot be "created".
                if operation == "read" and before in {"created", "modified"}:
                    self._files[path] = before
                elif operation == "created" and before in {"read", "modified"}:
                    self._files[path] = "modified"
                elif operation == "modified" and before == "created":
                    self._files[path] = "created"
                else:
                    self._files[path] = operation

    def take_ledger(self, later: Ledger) -> None:
        base = self._step
        for name, mention in later.identifiers.items():
            self._blocks[name] += mention.blocks
            self._used[name] += mention.used
            self._newest[name] = base + mention.newest
            if mention.line:
                self._lines[name] = mention.line
        self._step = base + later.step
        for path, operation in later.files.items():
            self._files.pop(path, None)
            self._files[path] = operation
        self._commands.extend(later.commands)
        self._renew(self._errors, later.errors)
        self._renew(self._constraints, later.constraints)

    @staticmethod
    def _renew(ordered: dict[str, None], lines: Iterable[str]) -> None:
        """Move lines to the newest end."""
        for line in lines:
            ordered.pop(line, None)
            ordered[line] = None

    def ledger(self) -> Ledger:
        steps = self.finish()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                ledger: Ledger = done.value
                return ledger

    def finish(self) -> Generator[None, None, Ledger]:
        """Make the ledger, and stop after each piece of work so that an async caller can let others run."""
        names = list({**self._mentions, **self._newest})
        if len(names) > _MAX_IDENTIFIERS:
            scores = []
            for number, name in enumerate(names, start=1):
                scores.append((-_score(name, *self._counted(name), step=self._step), name))
                if number % _PAUSE_NAMES == 0:
                    yield
            scores.sort()
            names = [name for _, name in scores[:_MAX_IDENTIFIERS]]
            yield
        mentions = {name: Mention(*self._counted(name), self._line_of(name)) for name in names}
        constraints = tuple(self._constraints)
        if len(constraints) > _FIRST_CONSTRAINTS + _NEWEST_CONSTRAINTS:
            constraints = constraints[:_FIRST_CONSTRAINTS] + constraints[-_NEWEST_CONSTRAINTS:]
        return Ledger(
            step=self._step,
            identifiers=mentions,
            files=dict(list(self._files.items())[-_MAX_FILES:]),
            commands=tuple(self._commands[-_MAX_COMMANDS:]),
            errors=tuple(self._errors)[-_MAX_ERRORS:],
            constraints=constraints,
        )

    def _counted(self, name: str) -> tuple[int, int, int]:
        """Return the blocks that name an identifier, those of the assistant among them, and the newest one's step."""
        blocks, used, newest = self._blocks.get(name, 0), self._used.get(name, 0), self._newest.get(name, 0)
        old = self._mentions.get(name)
        return (blocks, used, newest) if old is None else (blocks + old.blocks, used + old.used, newest or old.newest)

    def _line_of(self, name: str) -> str:
        """Return the newest line in which an identifier stood."""
        old = self._mentions.get(name)
        return self._lines.get(name) or (old.line if old else "")


def _outcome_of(result: Facts) -> str:
    """Return how a command ended; who names no exit code but shows errors may have failed, or only have read of them."""
    if result.problem is not None:
        return clipped(result.problem)
    return clipped(f"shows {result.errors[-1]}") if result.errors and result.exit_code is None else "ok"


def _score(name: str, blocks: int, used: int, newest: int, *, step: int) -> float:
    """Return how likely an identifier is needed again, per token that it takes."""
    return (
        math.log1p(blocks)
        + _USED_WEIGHT * math.log1p(used)
        - (step - newest) / max(step, 1)
        - _LENGTH_WEIGHT * math.log(len(name))
        - is_opaque(name)
    )


def _json_bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) + 2


def _newest(items: Sequence[T], limit_bytes: int) -> list[T]:
    """Return the newest items whose JSON has at most so many bytes, oldest of them first."""
    kept: list[T] = []
    for item in reversed(items):
        limit_bytes -= _json_bytes(item)
        if limit_bytes < 0:
            break
        kept.append(item)
    return kept[::-1]


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(entry for entry in _list_of(value) if isinstance(entry, str))
