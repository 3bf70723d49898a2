"""The suites as a user has them: the example in a folder of its own, pytest without any plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_store.py"


def run(*args, cwd):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, *args]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.row("X15")
def test_the_example_keeps_every_promise_of_a_store(tmp_path):
    # Under a name that pytest collects, where it is no module of any package.
    (tmp_path / "test_own_store.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    options = ("-p", "no:asyncio", "-p", "no:hypothesispytest", "-W", "error", "-q", "-rs")
    done = run("-m", "pytest", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 40
    assert "SqliteStore does not offer ctxkit.offload.capabilities.Fences" in done.stdout


def test_a_suite_without_a_factory_says_what_is_missing(tmp_path):
    (tmp_path / "test_nothing.py").write_text(
        "from ctxkit.testing import StoreSuite\nclass TestNothing(StoreSuite): pass\n", encoding="utf-8"
    )
    done = run("-m", "pytest", "-q", "-k", "order", cwd=tmp_path)
    assert done.returncode != 0
    assert "TestNothing has no open_store: define open_store(self, place)." in done.stdout


def test_importing_the_testing_room_does_not_import_pytest(tmp_path):
    done = run("-c", "import sys, ctxkit.testing; print('pytest' in sys.modules)", cwd=tmp_path)
    assert done.stdout.strip() == "False"
