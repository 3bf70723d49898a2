"""A ledger in the making: facts are taken one after another, oldest first."""

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar

from ctxkit.ledger.adapters import Deed
from ctxkit.ledger.calls import Call
from ctxkit.ledger.entries import Command, Failure, Job, Tested, Touch
from ctxkit.ledger.facts import Facts
from ctxkit.ledger.failing import deed_of, done_work, failed_work, is_shown, may_have_failed
from ctxkit.ledger.lines import clipped
from ctxkit.ledger.mentions import Mentions
from ctxkit.ledger.shell import Operation, Work

if TYPE_CHECKING:
    from ctxkit.ledger.fold import Ledger

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E", Touch, Tested, Job)

_MAX_FILES: Final = 400
_MAX_COMMANDS: Final = 40
_MAX_ERRORS: Final = 24
_MAX_FAILURES: Final = 60
_MAX_TESTS: Final = 200
_MAX_JOBS: Final = 30
_MAX_PROMISES: Final = 40
_FIRST_CONSTRAINTS: Final = 30
_NEWEST_CONSTRAINTS: Final = 50
_WHAT_CHARS: Final = 120
_RUNNER: Final = re.compile(r"pytest|unittest|jest|vitest|mocha|tox|nox|test", re.IGNORECASE)


class Fold:
    """A ledger in the making.

    Args:
        base: What is known already.
        names: Whether to count identifiers, which is most of the work; without, those of `base` stay.
    """

    def __init__(self, base: "Ledger", *, names: bool = True) -> None:
        self._base = base
        self._step = base.step
        self._mentions = Mentions(base.identifiers) if names else None
        self._files = dict(base.files)
        self._touches = dict(base.touches)
        self._commands = list(base.commands)
        self._errors = dict.fromkeys(base.errors)
        self._failures = dict(base.failures)
        self._tests = dict(base.tests)
        self._jobs = dict(base.jobs)
        self._promises = dict.fromkeys(base.promises)
        self._constraints = dict.fromkeys(base.constraints)
        self._open: dict[str, tuple[str, Facts, int]] = {}

    def take(self, facts: Facts, *, name: str = "", said: Deed | None = None) -> None:
        """Take the facts of one more block.

        Args:
            facts: The facts.
            name: Of a call, the tool's name.
            said: Of a result, what the tool's adapter says of the call.
        """
        self._step = step = self._step + 1
        if self._mentions is not None:
            self._mentions.take(facts, step)
        self._renew(self._constraints, facts.constraints)
        self._renew(self._errors, facts.errors)
        self._renew(self._promises, facts.promises)
        self._end_jobs(facts)
        if facts.call is not None:
            self._take_call(facts, facts.call, name)
        elif facts.is_result:
            self._take_result(facts, said)

    def _take_call(self, facts: Facts, call: Call, name: str) -> None:
        if call.command is not None:
            self._commands.append(Command(call.command, ""))
        if facts.call_id is not None:
            self._open[facts.call_id] = (name, facts, len(self._commands) - 1)

    def _take_result(self, facts: Facts, said: Deed | None) -> None:
        """Only what worked has touched a file: operations count when their result is in."""
        call_id = str(facts.call_id)
        self._jobs.pop(call_id, None)
        name, started, place = self._open.pop(call_id, ("", None, 0))
        if started is None or started.call is None:
            return
        deed = deed_of(started, facts, said)
        if started.call.command is not None:
            self._commands[place] = _ended(
                started.call.command, facts, deed, shows=may_have_failed(started, facts, deed)
            )
        for path, operation in deed.files:
            self._touch(path, operation, started.call.digest)
        self._settle(name, started, facts, deed)
        self._take_tests(started.call, facts, deed)
        what = _what(name, started.call)
        for job, state in deed.jobs.items():
            self._jobs[job] = Job(self._jobs[job].what if job in self._jobs else what, state, self._step)
        if facts.started is not None:
            self._jobs[facts.started[0] if facts.started else call_id] = Job(what, "running", self._step)

    def _touch(self, path: str, operation: Operation, digest: str) -> None:
        if operation == "deleted":
            self._delete(path)
            return
        path = self._known(path)
        before = self._files.pop(path, None)
        touched = self._touches.pop(path, None)
        # A file that was changed stays "modified" when it is only read afterwards, and one that was there before cannot
        # be "created".
        if operation == "read" and before in {"created", "modified"}:
            self._files[path], digest = before, touched.digest if touched else ""
        elif operation == "created" and before in {"read", "modified"}:
            self._files[path] = "modified"
        elif operation == "modified" and before == "created":
            self._files[path], digest = "created", ""
        else:
            self._files[path] = operation
        self._touches[path] = Touch(self._step, digest if operation in {"created", "read"} else "")

    def _delete(self, path: str) -> None:
        """Take note of files that are gone: one, all below a folder, or all that a pattern fits."""
        known = self._known(path)
        pattern = "*" in path or "?" in path
        gone = [
            name
            for name in self._files
            if name == known or name.startswith(f"{known.rstrip('/')}/") or (pattern and fnmatchcase(name, path))
        ]
        for name in gone or ([] if pattern else [known]):
            self._files.pop(name, None)
            self._touches.pop(name, None)
            self._files[name] = "deleted"
            self._touches[name] = Touch(self._step)

    def _known(self, path: str) -> str:
        """Return the name by which a file is known: a relative path and an absolute one that ends in it may be one file."""
        path = path.removeprefix("./")
        if path in self._files:
            return path
        if path.startswith(("/", "~")):
            same = [name for name in self._files if path.endswith(f"/{name}") and name[0] not in "/~"]
        else:
            same = [name for name in self._files if name.endswith(f"/{path}")]
            if "/" not in path:
                same = [name for name in same if self._files[name] != "read"]
        return same[0] if len(same) == 1 else path

    def _settle(self, name: str, started: Facts, ended: Facts, deed: Deed) -> None:
        """Take note of an error, and of those that are over."""
        done = done_work(name, started, ended, deed)
        for key, failure in self._failures.items():
            if failure.is_open and is_shown(key, done):
                self._failures[key] = failure._replace(resolved=self._step)
        failed = failed_work(name, started, deed)
        if failed is not None:
            what = _what(name, started.call)
            self._failures.pop(failed, None)
            self._failures[failed] = Failure(what, clipped(deed.problem or ""), self._step, call_id=str(ended.call_id))

    def _take_tests(self, call: Call, ended: Facts, deed: Deed) -> None:
        for test, state in deed.tests.items():
            self._tests.pop(test, None)
            self._tests[test] = Tested(state, self._step)
        if deed.problem is not None or ended.errors or not call.works:
            return
        # A runner that is silent about what passes has run these well.
        for test, run in self._tests.items():
            if run.state == "failed" and test not in deed.tests and any(_runs(work, test) for work in call.works):
                self._tests[test] = Tested("passed", self._step)

    def _end_jobs(self, facts: Facts) -> None:
        if facts.over is None or not self._jobs:
            return
        named = {name.lower() for name in facts.identifiers}
        for job, known in self._jobs.items():
            if known.state == "running" and job in named:
                self._jobs[job] = known._replace(state="over", step=self._step)

    def take_ledger(self, later: "Ledger") -> None:
        """Take what another ledger knows, all of which is newer."""
        base = self._step
        if self._mentions is not None:
            self._mentions.take_later(later.identifiers, base)
        self._step = base + later.step
        for path, operation in later.files.items():
            self._files.pop(path, None)
            self._files[path] = operation
        _renew_steps(self._touches, later.touches, base)
        _renew_steps(self._tests, later.tests, base)
        _renew_steps(self._jobs, later.jobs, base)
        for key, failure in later.failures.items():
            self._failures.pop(key, None)
            resolved = base + failure.resolved if failure.resolved else 0
            self._failures[key] = failure._replace(step=base + failure.step, resolved=resolved)
        self._commands.extend(later.commands)
        self._renew(self._errors, later.errors)
        self._renew(self._promises, later.promises)
        self._renew(self._constraints, later.constraints)

    @staticmethod
    def _renew(ordered: dict[str, None], lines: Iterable[str]) -> None:
        """Move lines to the newest end."""
        for line in lines:
            ordered.pop(line, None)
            ordered[line] = None

    def ledger(self) -> "Ledger":
        """Return the ledger, made at one go."""
        steps = self.finish()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                ledger: Ledger = done.value
                return ledger

    def finish(self) -> "Generator[None, None, Ledger]":
        """Make the ledger, and stop after each piece of work so that an async caller can let others run."""
        mentions = self._base.identifiers
        if self._mentions is not None:
            mentions = yield from self._mentions.finish(self._step)
        constraints = tuple(self._constraints)
        if len(constraints) > _FIRST_CONSTRAINTS + _NEWEST_CONSTRAINTS:
            constraints = constraints[:_FIRST_CONSTRAINTS] + constraints[-_NEWEST_CONSTRAINTS:]
        for call_id, (name, started, _) in self._open.items():
            if started.call is not None:
                self._jobs[call_id] = Job(_what(name, started.call), "waiting", self._step)
        files = _newest(self._files, _MAX_FILES, first=lambda done: done != "read")
        return replace(
            self._base,
            step=self._step,
            identifiers=mentions,
            files=files,
            touches={path: self._touches[path] for path in files if path in self._touches},
            commands=tuple(self._commands[-_MAX_COMMANDS:]),
            errors=tuple(self._errors)[-_MAX_ERRORS:],
            failures=_newest(self._failures, _MAX_FAILURES, first=lambda failure: failure.is_open),
            tests=_newest(self._tests, _MAX_TESTS, first=lambda run: run.state == "failed"),
            jobs=_newest(self._jobs, _MAX_JOBS, first=lambda job: job.state != "over"),
            promises=tuple(self._promises)[-_MAX_PROMISES:],
            constraints=constraints,
        )


def _newest(items: Mapping[K, V], limit: int, *, first: Callable[[V], bool]) -> dict[K, V]:
    """Return at most so many of the newest, in their order; those that go first go before all others."""
    if len(items) <= limit:
        return dict(items)
    ranked = sorted(enumerate(items), key=lambda item: (not first(items[item[1]]), -item[0]))[:limit]
    return {name: items[name] for _, name in sorted(ranked)}


def _renew_steps(known: dict[str, E], later: Mapping[str, E], base: int) -> None:
    for name, entry in later.items():
        known.pop(name, None)
        known[name] = entry._replace(step=base + entry.step)


def _ended(text: str, result: Facts, deed: Deed, *, shows: bool) -> Command:
    """Return a command with how it ended; who names no exit code but shows errors may have failed, or only read of them."""
    first = result.errors[0] if len(result.errors) > 1 else ""
    if deed.problem is not None:
        return Command(text, clipped(deed.problem), deed.exit_code, first)
    return Command(
        text, clipped(f"shows {result.errors[-1]}") if shows else "ok", deed.exit_code, first if shows else ""
    )


def _what(name: str, call: Call | None) -> str:
    """Return a call in a few words."""
    told = "" if call is None else call.command or (call.files[0][0] if call.files else call.text)
    return clipped(f"{name} {told}".strip(), _WHAT_CHARS)


def _runs(work: Work, test: str) -> bool:
    """Whether a program that went well has run a test."""
    return _RUNNER.search(work.program + "".join(work.words[:1])) is not None and (
        not work.words or "./..." in work.words or any(test.startswith(word) for word in work.words)
    )
