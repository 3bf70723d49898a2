"""Every example runs as it stands, in a process of its own, and warns of nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS_A_MODEL = {"live_model.py"}


def run(example: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env={**environment, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", sorted({path.name for path in EXAMPLES.glob("*.py")} - NEEDS_A_MODEL))
def test_an_example_runs_and_says_something(name):
    done = run(EXAMPLES / name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", sorted(NEEDS_A_MODEL))
def test_an_example_that_needs_a_model_says_what_to_set(name):
    done = run(EXAMPLES / name)
    assert "_API_KEY" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_has_an_async_main(name):
    assert "async def main(" in (EXAMPLES / name).read_text(encoding="utf-8")
