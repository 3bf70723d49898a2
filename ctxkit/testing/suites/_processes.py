"""Processes that a suite starts and kills; everything here blocks, so it is called away from any event loop."""

import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from ctxkit.testing.suites._base import Suite


class Child:
    """A process that runs a method of a suite on a place.

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
        self._alarm.start()
        self._said: list[str] = []

    def wait_for_a_word(self) -> str:
        """Return the next line that the process says.

        Raises:
            AssertionError: It ended, or hung and was killed, without saying one.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.endswith("\n"):
            self._end()
            pytest.fail(f"the process that should write ended early (exit {self._process.returncode}): {self._trouble}")
        self._said.append(line.rstrip("\n"))
        return self._said[-1]

    def kill_after(self, seconds: float) -> Sequence[str]:
        """Kill the process that many seconds from now; return all lines that it has said."""
        time.sleep(seconds)
        self._process.kill()
        self._end()
        return self._said

    def finish(self) -> Sequence[str]:
        """Wait until the process has done its work; return all lines that it has said.

        Raises:
            AssertionError: It failed.
        """
        self._end()
        if self._process.returncode:
            pytest.fail(f"a process that should write failed (exit {self._process.returncode}): {self._trouble}")
        return self._said

    def _end(self) -> None:
        out, _ = self._process.communicate()
        self._alarm.cancel()
        # What a killed process has not finished saying, it has not said.
        self._said += out.decode().split("\n")[:-1]
        self._errors.seek(0)
        self._trouble = self._errors.read().decode(errors="replace")[-2000:].strip() or "it said nothing about why"
        self._errors.close()


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
