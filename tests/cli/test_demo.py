"""`ctxkit demo`, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxkit.cli import app

LIBRARY = Path(sysconfig.get_path("stdlib"))
COMMAND = [sys.executable, "-c", "from ctxkit.cli import app; app()"]
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell lets what it starts in the background ignore interrupts, and so does all that is started by that."""

pytestmark = pytest.mark.slow


def environment(**more: str) -> dict[str, str]:
    colour = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return {name: value for name, value in os.environ.items() if name not in colour} | {"PYTHONUTF8": "1"} | more


def library_files() -> dict[str, tuple[int, int]]:
    """Return size and time of each file of the library; caches apart, for this very process writes some."""
    files = {}
    for folder, folders, names in os.walk(LIBRARY):
        folders[:] = [name for name in folders if name not in {"__pycache__", "site-packages", "dist-packages"}]
        for path in (Path(folder, name) for name in names):
            stat = path.lstat()
            files[str(path)] = (stat.st_size, stat.st_mtime_ns)
    return files


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "kept"


@pytest.fixture(scope="module")
def library_before():
    return library_files()


@pytest.fixture(scope="module")
def demo(kept, library_before):
    return CliRunner().invoke(app, ["demo", "--json", "--keep", str(kept)])


@pytest.fixture(scope="module")
def race(demo):
    assert demo.exception is None or isinstance(demo.exception, SystemExit), demo.exception
    return json.loads(demo.stdout)


@pytest.mark.row("X2")
def test_ctxkit_comes_to_the_end_and_answers_from_what_had_left_its_context(demo, race):
    ours = race["ctxkit"]
    assert (ours["survived"], ours["died_of"]) == (True, None)
    assert ours["steps"] == ours["steps_total"]
    assert ours["is_fact_in_context"] is False
    assert ours["answer"] == race["expected"]
    assert demo.exit_code == 0


def test_ctxkit_compresses_often_and_is_never_refused(race):
    ours = race["ctxkit"]
    assert ours["compressions"] >= 3
    assert ours["refused_calls"] == 0
    assert ours["longest_request_tokens"] <= race["window_tokens"] == 16_384
    assert ours["results_shortened"] >= 10
    assert race["notes"] == []


@pytest.mark.row("X10")
def test_the_users_rule_stands_word_for_word_in_the_last_request(race):
    assert race["ctxkit"]["is_constraint_live"]


def test_what_became_of_the_stock_agent_is_reported_either_way(race):
    stock = race["stock"]
    if stock["survived"]:
        assert stock["steps"] == stock["steps_total"]
    else:
        assert stock["steps"] < stock["steps_total"]
        assert stock["died_of"]
        assert (stock["is_fact_in_context"], stock["answer"]) == (None, None)
        assert "Traceback" not in stock["died_of"]


def test_what_the_agents_stored_is_kept_where_asked(race, kept):
    assert race["kept_in"] == str(kept)
    for kind in race["ctxkit"]["stored"]:
        files = list(Path(kept, "ctxkit").glob(kind["where"]))
        assert len(files) == kind["files"]
        assert sum(path.stat().st_size for path in files) == kind["size_bytes"]
    digest = race["expected"].rpartition(" ")[2].removesuffix(".")
    results = Path(kept, "ctxkit").glob("sessions/*/tool_result-*.txt")
    assert any(digest in path.read_text(encoding="utf-8") for path in results)


def test_the_standard_library_is_as_it_was(library_before, race):
    assert library_files() == library_before


@pytest.mark.parametrize("window", ["7999", "200001", "many"])
def test_a_window_out_of_bounds_is_refused(window):
    result = CliRunner().invoke(app, ["demo", "--window", window])
    assert result.exit_code == 2
    assert "--window" in result.stderr


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    result = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path)])
    assert result.exit_code == 2
    assert "--keep" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_without_a_terminal_it_prints_plain_lines_and_leaves_no_folder(tmp_path):
    done = subprocess.run(
        [*COMMAND, "demo"],
        env=environment(TMPDIR=str(tmp_path), PYTHONWARNINGS="error"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "compressed" in done.stdout
    assert "question answered right" in done.stdout
    assert list(tmp_path.glob("ctxkit-demo-*")) == []


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process")
@pytest.mark.parametrize("after", ["stock", "with ctxkit", "     compressing", "   10/48"])
def test_ctrl_c_leaves_cleanly_and_takes_its_folder_along(after, tmp_path):
    with subprocess.Popen(
        [*COMMAND[:-1], HEARS + COMMAND[-1], "demo"],
        env=environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        for line in process.stdout:
            if line.startswith(after):
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the agent's commands, too
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "Stopped.\n"
    assert list(tmp_path.glob("ctxkit-demo-*")) == []


def test_help_and_version_do_not_wait_for_agentscope():
    code = (
        "import sys; from ctxkit.cli import app; "
        "app(['--help'], standalone_mode=False); app(['demo', '--help'], standalone_mode=False); "
        "app(['--version'], standalone_mode=False); assert 'agentscope' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--keep" in done.stdout
    assert "agentscope-ctxkit" in done.stdout
