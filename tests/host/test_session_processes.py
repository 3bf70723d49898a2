"""Sessions over processes: killed at any moment, and two of them on one session."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agentscope.state import AgentState

from tests.host.agents import orphans, text_of
from tests.host.session_process import store_of

PROGRAM = Path(__file__).with_name("session_process.py")
ENVIRONMENT = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
TURNS = 40
ROUNDS = int(os.environ.get("CTXKIT_CRASH_ROUNDS", "3"))
"""Processes that are killed; each takes seconds to start."""

pytestmark = [pytest.mark.crash, pytest.mark.skipif(os.name != "posix", reason="kills processes by signal")]


class Other:
    """A process that stops at each of its moments."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def next(self) -> str:
        """Return its next moment; the process waits there. Empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        """Let it pass the moment."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def until(self, start: str) -> str:
        """Let it go on to a moment that starts so, and return that."""
        while not (told := self.next()).startswith(start):
            assert told, f"the process ended before it told {start!r}"
            self.go_on()
        return told


@contextmanager
def other(kind: str, folder: Path, *, turns: int = TURNS, writes: bool = False) -> Iterator[Other]:
    """Run the program, and kill it in the end."""
    environment = {**ENVIRONMENT, **({"CTXKIT_TELL_WRITES": "1"} if writes else {})}
    command = [sys.executable, str(PROGRAM), kind, str(folder), str(turns)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield Other(process)
        finally:
            process.kill()


def saved(kind: str, folder: Path) -> AgentState:
    async def load() -> AgentState:
        store = store_of(kind, folder)
        try:
            found = await store.load("s-1")
        finally:
            await store.aclose()
        return AgentState() if found is None else AgentState.model_validate(found.state)

    return asyncio.run(load())


@pytest.mark.row("C8", "O1")
@pytest.mark.parametrize("kind", ["sqlite", "transcript"])
def test_an_agent_that_is_killed_at_any_moment_goes_on_with_every_reply_that_has_ended(kind, tmp_path):
    chance = random.Random(1)
    ended = -1
    for number in range(ROUNDS):
        with other(kind, tmp_path, writes=number % 2 == 0) as process:
            attached = process.until("attached").removeprefix("attached: ")
            assert int(attached) >= ended + 1
            process.go_on()
            for _ in range(chance.randint(3, 25)):
                told = process.next()
                if told.startswith("ended"):
                    ended = int(told.removeprefix("ended: "))
                process.go_on()
    assert ended >= 4
    state = saved(kind, tmp_path)

    turns = [line for line in text_of(state.context).split("\n") if line.startswith("Turn")]
    assert turns[: ended + 1] == [f"Turn {turn:03d}." for turn in range(ended + 1)]
    assert orphans(state.context) == []


@pytest.mark.row("O4")
def test_a_session_is_free_at_once_when_its_owner_is_killed(tmp_path):
    with other("sqlite", tmp_path) as first:
        first.until("ended: 0")
        first.go_on()
        first.until("asked: 1")
        first.process.kill()
        first.process.wait()
        with other("sqlite", tmp_path) as second:
            assert second.until("attached") == "attached: 1"


@pytest.mark.row("O4")
def test_an_owner_that_was_stopped_is_not_robbed_and_goes_on(tmp_path):
    with other("sqlite", tmp_path, turns=1) as first:
        first.until("asked")
        first.process.send_signal(signal.SIGSTOP)
        with other("sqlite", tmp_path) as second:
            refusal = second.until("locked")
            assert f"pid {first.process.pid}" in refusal
            assert "scribe" in refusal
        first.process.send_signal(signal.SIGCONT)
        first.go_on()
        first.until("ended: 0")

    assert "Counted." in text_of(saved("sqlite", tmp_path).context)
