"""What is a command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.commands import COMMANDS, Command, parse_command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/context", Command(name="context")),
        ("  /context clear \n", Command(name="context", argument="clear")),
        ("/Config KEY  a value", Command(name="config", argument="KEY  a value")),
        ("/compact\tthe deadlines", Command(name="compact", argument="the deadlines")),
    ],
)
def test_a_command_is_a_name_behind_a_slash_and_what_stands_behind_it(text, expected):
    assert parse_command(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/ context",
        "//context",
        "/contexts",
        "/context/clear",
        "/config.yaml",
        "/etc/passwd",
        "/unknown",
        "context",
        "use /context",
        "/pin one\nline more",
        "/context\u2028clear",
    ],
)
def test_what_only_looks_like_a_command_is_none(text):
    assert parse_command(text) is None


@given(st.text())
def test_any_text_is_a_command_of_these_or_none(text):
    found = parse_command(text)
    assert found is None or (found.name in COMMANDS and text.strip().startswith("/"))


@given(st.sampled_from(COMMANDS), st.text(st.characters(categories=["L", "N", "P", "Zs"])))
def test_what_stands_behind_a_name_is_its_argument_as_it_was_typed(name, argument):
    found = parse_command(f"/{name} {argument}")
    assert found == Command(name=name, argument=argument.strip())
