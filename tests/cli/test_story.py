"""The demo's story: what it runs on a machine, and how its question is answered."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import pytest

from ctxkit.cli.story import (
    ASKED_FILE,
    CONSTRAINT,
    Hands,
    Story,
    ToolUse,
    answer_from,
    expected_answer,
    tell_story,
)

LIBRARY = Path(sysconfig.get_path("stdlib"))
RECALL = ToolUse(tool="search_context", arguments={"query": "x"})


def story(*, has_ripgrep: bool = True) -> Story:
    return tell_story(Hands(library=LIBRARY, python=sys.executable, has_ripgrep=has_ripgrep), recall=RECALL)


def uses(told: Story) -> list[ToolUse]:
    return [use for turn in told.turns for step in turn.steps for use in step.uses]


def test_the_story_takes_forty_to_sixty_steps_and_every_kind_of_tool():
    told = story()
    assert 40 <= told.steps_total <= 60
    assert {use.tool for use in uses(told)} == {"Bash", "Glob", "Grep", "Read", "search_context"}


def test_without_ripgrep_the_agent_greps_by_bash():
    told = story(has_ripgrep=False)
    assert "Grep" not in {use.tool for use in uses(told)}
    assert sum("grep -rnE" in use.arguments.get("command", "") for use in uses(told)) == sum(
        use.tool == "Grep" for use in uses(story())
    )


def test_every_python_command_is_isolated_and_writes_no_byte_code():
    commands = [use.arguments["command"] for use in uses(story()) if use.tool == "Bash"]
    assert commands
    for command in commands:
        assert command.startswith(f'"{sys.executable}" -I -B ')
        code = command.partition(' -c "')[2].removesuffix('"')
        assert not set(code) & set('"$`')  # nothing in it that a shell would look at


def test_every_file_that_is_read_is_there():
    read = [Path(use.arguments["file_path"]) for use in uses(story()) if use.tool == "Read"]
    assert [path for path in read if not path.is_file()] == []


def test_the_rule_is_laid_down_in_the_first_request_only():
    assert [CONSTRAINT in turn.request for turn in story().turns] == [True, False, False]


def test_the_answer_is_read_from_the_record_of_the_asked_file_alone():
    records = [
        {"file": "tarfile.py", "lines": 1, "digest": "0" * 16},
        {"file": ASKED_FILE, "lines": 77, "digest": "0123456789abcdef"},
    ]
    said = answer_from(["nothing here", f"1. reference=... \n…{json.dumps(records)}…"])
    assert said == f"{ASKED_FILE} has 77 lines and the digest 0123456789abcdef."


@pytest.mark.parametrize("text", ["", ASKED_FILE, f'{{"file": "{ASKED_FILE}", "lines": 77, "dig'])
def test_a_record_that_is_cut_off_gives_no_answer(text):
    assert answer_from([text]) == "I no longer know."


def test_the_expected_answer_is_taken_from_the_file_itself(tmp_path):
    (tmp_path / ASKED_FILE).write_bytes(b"a = 1\nb = 2\n")
    assert expected_answer(tmp_path) == f"{ASKED_FILE} has 2 lines and the digest fe9c2dadb34bee2a."
