"""`ctxkit repair`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agentscope.state import AgentState
from typer.testing import CliRunner

from ctxkit.cli import app
from ctxkit.host._codec import HostCodec
from ctxkit.offload.directory import Directory
from ctxkit.offload.locks.file_lease import take

HEADER = b'{"type":"session","version":1,"id":"abc","timestamp":"2026-01-01T00:00:00+00:00"}\n'
CALL = {"type": "tool_call", "id": "a", "name": "search", "input": "{}"}


def ran(*args: object):
    outcome = CliRunner().invoke(app, ["repair", *map(str, args)], env={"COLUMNS": "200"})
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


@pytest.fixture
def sessions(tmp_path) -> Path:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    line = HostCodec().dump(HostCodec().user_message("hello")).encode() + b"\n"
    (folder / "sound.jsonl").write_bytes(HEADER + line)
    (folder / "torn.jsonl").write_bytes(HEADER + line + b'{"torn\n')
    context = [
        {"id": "m", "name": "scribe", "role": "assistant", "content": [CALL]},
        {"role": "user", "name": "u", "content": []},
    ]
    (folder / "torn.state.json").write_text(json.dumps({"session_id": "torn", "context": context}))
    return folder


@pytest.mark.row("O14")
def test_a_folder_is_repaired_file_by_file_and_then_there_is_nothing_to_do(sessions, tmp_path):
    outcome = ran(tmp_path)

    assert outcome.exit_code == 0
    assert "3 files looked at, 2 repaired, 0 not repairable." in outcome.stdout
    assert "torn.jsonl.dropped-" in outcome.stdout
    assert "torn.jsonl.bak-" in outcome.stdout
    assert "missing_result" in outcome.stdout
    state = AgentState.model_validate_json((sessions / "torn.state.json").read_text())
    assert [block.type for block in state.context[0].content] == ["tool_call", "tool_result"]
    again = ran(tmp_path)
    assert (again.exit_code, again.stdout) == (0, "3 files looked at, 0 repaired, 0 not repairable.\n")


def test_a_dry_run_says_the_same_and_writes_nothing(sessions, tmp_path):
    before = {path: path.read_bytes() for path in sessions.iterdir()}

    outcome = ran(tmp_path, "--dry-run")

    assert outcome.exit_code == 0
    assert "3 files looked at, 2 to repair, 0 not repairable." in outcome.stdout
    assert "would be repaired" in outcome.stdout
    assert {path: path.read_bytes() for path in sessions.iterdir()} == before


def test_what_cannot_be_repaired_is_named_and_makes_the_exit_code_1(sessions):
    (sessions / "newer.jsonl").write_bytes(HEADER.replace(b'"version":1', b'"version":9'))
    (sessions / "lone.state.json").write_text("{")
    with Directory.at(sessions, create=False) as folder:
        lease = take(folder, "torn.jsonl.lock", owner={"owner": "agent 'scribe'"})
        outcome = ran(sessions)
        lease.release()

    assert outcome.exit_code == 1
    said = " ".join(outcome.stdout.split())
    assert "update ctxkit" in said
    assert "restore a backup" in said
    assert "scribe" in said
    assert (sessions / "torn.jsonl").read_bytes().endswith(b'{"torn\n')


def test_a_single_file_that_is_none_of_a_session_is_said_to_be_none(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    outcome = ran(path)
    assert outcome.exit_code == 1
    assert "no transcript" in outcome.stdout


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path):
    assert ran(tmp_path / "none").exit_code == 2
    assert ran().exit_code == 2


def test_ids_from_a_file_do_not_steer_the_terminal(sessions):
    bad = {**CALL, "id": "a\u001b[2J[bold]", "name": "\u202e"}
    context = [
        {"id": "m\u0007", "name": "scribe", "role": "assistant", "content": [bad]},
        {"role": "user", "name": "u", "content": []},
    ]
    (sessions / "evil.state.json").write_text(json.dumps({"session_id": "evil", "context": context}))

    outcome = ran(sessions, "--dry-run")

    assert "[bold]" in outcome.stdout
    assert not {"\u001b", "\u0007", "\u202e"} & set(outcome.stdout)
