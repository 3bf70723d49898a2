"""An agent that is killed at any moment and started anew from its last saved state has lost nothing."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from agentscope.state import AgentState

from tests.host.agents import text_of

MORTAL = Path(__file__).with_name("mortal.py")
# Whatever was installed for this process, and nothing else: the checkout is not forced on it.
ROOT = Path(__file__).parents[2]
"""Of the tests; last in the path, so that the wheel is what is tested."""
ENVIRONMENT = {
    **os.environ,
    "PYTHONSAFEPATH": "1",
    "PYTHONPATH": os.pathsep.join([*map(os.path.abspath, sys.path), str(ROOT)]),
}
ROUNDS = 10
TURNS = 24
CALLS = 3

pytestmark = [pytest.mark.crash, pytest.mark.skipif(os.name != "posix", reason="kills processes by signal")]


def live_for(
    folder: Path,
    moments: int | None,
    *,
    die_at_once: bool = True,
    die_at: str = "",
    turns: int = TURNS,
    program: Path = MORTAL,
) -> list[str]:
    """Let the process pass so many moments and kill it, or let it come to its end; return the moments.

    Args:
        folder: Where it works.
        moments: How many; all where None.
        die_at_once: Whether it dies in the last moment itself, not somewhere behind it.
        die_at: Name of the moment in which it dies, however many there were before.
        turns: Turns after which its work is done.
        program: What it runs.
    """
    command = [sys.executable, str(program), str(folder), str(turns)]
    passed: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while line := process.stdout.readline():
            passed.append(line.decode().strip())
            is_last = len(passed) == moments or passed[-1] == die_at
            if not (is_last and die_at_once):
                process.stdin.write(b"\n")
                process.stdin.flush()
            if is_last:
                process.kill()
                break
    assert process.returncode == (0 if moments is None and not die_at else -9)
    return passed


def turns_saved(folder: Path) -> int:
    file = folder / "saved.json"
    return json.loads(file.read_bytes())["turns"] if file.exists() else 0


def trailers(folder: Path) -> list[dict]:
    lines = (folder / "workspace/sessions/s/context.jsonl").read_bytes().splitlines()
    return [json.loads(line)["_ctxkit"] for line in lines]


def everything(folder: Path) -> tuple[str, str]:
    """Return what stands in the live context and summary, and what stands in the store."""
    state = AgentState.model_validate(json.loads((folder / "saved.json").read_bytes())["state"])
    summary = state.summary if isinstance(state.summary, str) else "".join(block.text for block in state.summary)
    files = sorted((folder / "workspace").rglob("*"))
    stored = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    return f"{summary}\n{text_of(state.context)}", stored


@pytest.mark.row("X1")
def test_an_agent_that_is_killed_at_any_moment_loses_and_repeats_nothing(tmp_path):
    chance = random.Random(1)
    told: list[str] = []
    for turn in range(ROUNDS):
        before = turns_saved(tmp_path)
        told += live_for(tmp_path, chance.randint(5, 35), die_at_once=turn % 2 == 0)
        assert turns_saved(tmp_path) >= before
    assert 0 < turns_saved(tmp_path) < TURNS
    told += live_for(tmp_path, None)

    assert turns_saved(tmp_path) == TURNS
    assert told.count("compressed") >= 10
    found = trailers(tmp_path)
    assert [one["n"] for one in found] == list(range(1, len(found) + 1))
    assert len({one["k"] for one in found}) == len(found)
    live, stored = everything(tmp_path)
    said = [f"look up the three topics of request REQ-{turn:04d} and say what is missing." for turn in range(TURNS)]
    marks = [f"MARK-{turn:04d}-{number}-{part}" for turn in range(TURNS) for number in range(CALLS) for part in "abc"]
    assert [text for text in [*said, *marks] if text not in live and text not in stored] == []
    assert said[0] in stored
    assert [mark for mark in marks if mark not in live], "all of it is live, so nothing was shown"


@pytest.mark.row("X1")
def test_an_agent_that_is_killed_between_store_and_swap_goes_on_without_a_second_summary(tmp_path):
    turns = 6
    told = live_for(tmp_path, None, die_at="about to swap", turns=turns)
    for _ in range(2):  # killed in the same place again and again
        again = live_for(tmp_path, None, die_at="about to swap", turns=turns)
        assert "asked" not in again
        told += again
    told += live_for(tmp_path, None, turns=turns)

    assert turns_saved(tmp_path) == turns
    found = trailers(tmp_path)
    plans = [one for one in found if one.get("t") == "plan"]
    # Not every plan has a summary, and the last one may be prepared for a compression that is still to come.
    assert 2 <= told.count("asked") <= len(plans) <= told.count("compressed") + 1
    assert len({one["k"] for one in found}) == len(found)
