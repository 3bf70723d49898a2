"""`ctxkit config`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxkit.cli import app
from ctxkit.config_file.schema import config_schema

DATA = Path(__file__).parents[1] / "data" / "config"
SECRET = "sk-4f9a72c1"
pytestmark = pytest.mark.row("D3")


def ran(*args: object, **environment: str):
    outcome = CliRunner().invoke(app, ["config", *map(str, args)], env={"COLUMNS": "300", **environment})
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    assert SECRET not in outcome.output
    return outcome


def test_a_right_file_is_said_to_be_right_with_what_it_has():
    outcome = ran("check", DATA / "digitorn-complete.yaml")
    assert outcome.exit_code == 0
    assert outcome.stdout == (
        f"{DATA / 'digitorn-complete.yaml'}: right. Profile: digitorn; agents: assistant; "
        "rules: _auto_compact, pressure_log, turn5_reminder.\n"
    )


def test_a_bad_file_gets_a_line_for_each_thing_and_exit_code_1(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text("execution:\n  context:\n    keep_recnt: 4\n    strategy: drop\n")
    outcome = ran("check", file)
    assert outcome.exit_code == 1
    assert outcome.stdout.splitlines() == [
        f"{file}:3:5: execution.context.keep_recnt is unknown: did you mean keep_recent?",
        f"{file}:4:15: execution.context.strategy is 'drop': give one of 'summarize', 'truncate'.",
    ]


def test_what_does_not_go_together_is_wrong_too(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text("trigger_ratio: 0.2\nreserve_ratio: 0.4\n")
    outcome = ran("check", file)
    assert outcome.exit_code == 1
    assert "lower reserve_ratio" in outcome.stdout


def test_a_brain_that_agentscope_has_no_model_for_is_noted(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text("summary_brain: {provider: mine, model: m, config: {api_key: '{{env.KEY}}'}}\n")
    outcome = ran("check", file, KEY=SECRET)
    assert outcome.exit_code == 0
    assert "note: " in outcome.stdout
    assert "summary_brain.provider is 'mine'" in outcome.stdout


def test_each_setting_is_shown_with_its_value_and_where_that_comes_from():
    outcome = ran("show", DATA / "digitorn-complete.yaml")
    line = next(line for line in outcome.stdout.splitlines() if "ladder.keep_messages" in line)
    assert "6" in line
    assert "digitorn-complete.yaml:24 agents.0.brain.context.keep_recent" in line
    assert "profile digitorn: digitorn-context-management.txt:101" in outcome.stdout
    assert "rule 1" in outcome.stdout


def test_shown_as_json_it_is_one_object_and_secrets_are_hidden():
    outcome = ran("show", DATA / "own.yaml", "--agent", "planner", "--json", CTX_KEY=SECRET, CTX_TOKENS="9000")
    shown = json.loads(outcome.stdout)
    assert (shown["agent"], shown["profile"], shown["rules"]) == ("planner", "openclaw", ["tell"])
    assert shown["settings"]["window.cap_tokens"]["value"] == 50_000
    assert shown["settings"]["trigger_ratio"] == {"value": 0.7, "from": f"{DATA / 'own.yaml'}:3 trigger_ratio"}
    assert shown["settings"]["summary.attempts"] == {
        "value": 3,
        "from": "profile openclaw: openclaw-context-management.txt:136 LLM summarization retries | 3 attempts",
    }
    assert shown["settings"]["summary.warm"] == {"value": True, "from": "default"}
    assert shown["settings"]["retention.max_sessions"]["value"] == 500
    assert shown["settings"]["locks.timeout_s"]["value"] == 5


def test_what_comes_from_the_environment_is_not_shown(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text(
        "window: {cap_tokens: '{{env.N}}'}\nsummary_brain: {provider: openai, model: m, config: {api_key: '{{env.KEY}}'}}\n"
    )
    shown = json.loads(ran("show", file, "--json", KEY=SECRET, N="9000").stdout)
    assert shown["settings"]["window.cap_tokens"]["value"] == "***"
    assert shown["summary_brain"] == {"provider": "openai", "model": "m", "backend": None, "config": ["api_key"]}


@pytest.mark.parametrize("command", [("check",), ("show",), ("show", "--json")])
def test_names_that_come_from_the_environment_are_not_shown_either(tmp_path, command):
    file = tmp_path / "app.yaml"
    file.write_text(
        "summary_brain: {provider: 'p{{env.KEY}}', model: '{{env.KEY}}'}\nagents: [{id: '{{env.KEY}}'}]\n"
        "hooks: [{id: 'r{{env.KEY}}', condition: {type: always}, action: {type: log, message: m}}]\n"
    )
    outcome = ran(command[0], file, *command[1:], KEY=SECRET)
    assert outcome.exit_code == 0
    assert SECRET not in outcome.stdout
    assert "{{env.KEY}}" in outcome.stdout


def test_an_unknown_agent_is_refused_by_name():
    outcome = ran("show", DATA / "digitorn-two-levels.yaml", "--agent", "assistnat", DEEPSEEK_API_KEY=SECRET)
    assert outcome.exit_code == 1
    assert "did you mean assistant?" in outcome.stdout


def test_the_schema_is_printed():
    assert json.loads(ran("schema").stdout) == config_schema()
