"""Processes that a suite starts and kills; everything here blocks, so it is called away from any event loop."""

import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn, Self

import pytest

from ctxkit.testing.suites._base import Suite


class Child:
    """A process that runs a method of a suite on a place; it ends with its `with` block at the latest.

    It starts at once, imports the user's class, which may take a while, and then waits for `go`.

    Args:
        suite: An instance of the user's class, which the process imports anew.
        place: What it opens.
        method: The method: `async def method(self, opened, say, *args)`.
        args: Its further arguments.
    """

    def __init__(self, suite: Suite[Any], place: Path, method: str, *args: str) -> None:
        kind = type(suite)
        if "<locals>" in kind.__qualname__:
            pytest.skip(f"{kind.__qualname__} is defined in a function, so no other process can import it")
        command = [sys.executable, "-m", "ctxkit.testing.suites.child", inspect.getfile(kind), kind.__module__]
        # Not a pipe, which nobody empties meanwhile.
        self._errors = TemporaryFile()  # noqa: SIM115 - closed where the process ends
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, kind.__qualname__, str(place), method, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )
        # One that hangs is killed, and so fails the test.
        self._alarm = threading.Timer(kind.timeout_s, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()
        self._said: list[str] = []
        self._is_ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def wait_until_ready(self) -> None:
        """Wait until the process has imported what it needs."""
        if not self._is_ready:
            self._next_line()
            self._is_ready = True

    def go(self) -> None:
        """Let the process begin as soon as it can."""
        assert self._process.stdin is not None
        self.wait_until_ready()
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def wait_for_a_word(self) -> str:
        """Return the next line that the process says.

        Raises:
            AssertionError: It ended, or hung and was killed, without saying one.
        """
        self._said.append(self._next_line())
        return self._said[-1]

    def kill_after(self, seconds: float) -> Sequence[str]:
        """Kill the process that many seconds from now; return all lines that it has said."""
        time.sleep(seconds)
        self._process.kill()
        return self._rest()

    def finish(self) -> Sequence[str]:
        """Wait until the process has done its work; return all lines that it has said.

        Raises:
            AssertionError: It failed.
        """
        said = self._rest()
        if self._process.returncode:
            self._fail()
        return said

    def _next_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.endswith("\n"):
            self._process.wait()
            self._fail()
        return line.rstrip("\n")

    def _rest(self) -> Sequence[str]:
        assert self._process.stdout is not None
        # Not `communicate`, which passes over what `readline` has read ahead.
        out = self._process.stdout.read()
        self._process.wait()
        # What a killed process has not finished saying, it has not said.
        return [*self._said, *out.decode().split("\n")[:-1]]

    def _fail(self) -> NoReturn:
        self._errors.seek(0)
        trouble = self._errors.read().decode(errors="replace")[-2000:].strip() or "it said nothing about why"
        pytest.fail(f"a process of the test ended early (exit {self._process.returncode}): {trouble}")


def must_outlive(suite: Suite[Any]) -> None:
    """Skip a test of a back end that keeps nothing beyond the process."""
    if not suite.durable:
        pytest.skip("durable = False: nothing outlives the process")
    if not suite.kills:
        pytest.skip("kills = 0: no process is to be killed")


def must_share(suite: Suite[Any]) -> None:
    """Skip a test of a back end that one process at a time may open."""
    if not suite.durable or not suite.processes:
        pytest.skip("durable or processes = False: one process at a time may open the place")


def all_at_once(children: Iterable[Child]) -> None:
    """Let processes begin at the same time."""
    waiting = [*children]
    for child in waiting:
        child.wait_until_ready()
    for child in waiting:
        child.go()


def one_after_another(
    suite: Suite[Any], place: Path, method: str, *, calls: Sequence[Sequence[str]]
) -> Generator[Child, None, None]:
    """Yield processes that are ready to go, each while the next one is starting.

    Args:
        suite: An instance of the user's class.
        place: What they open.
        method: What they run.
        calls: The further arguments of each.

    Yields:
        A process; whoever stops early closes the generator, which ends them all.
    """
    with ExitStack() as stack:
        waiting: list[Child] = []
        for args in calls:
            waiting.append(stack.enter_context(Child(suite, place, method, *args)))
            if len(waiting) > 1:
                yield waiting.pop(0)
        yield from waiting
