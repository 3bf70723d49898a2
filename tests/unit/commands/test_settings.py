"""The settings that can be typed: their names, their values, and what they take."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.commands import Change, checked_changes
from ctxkit.commands.settings import about, hint_of, known_settings, named, shown, takes, typed
from ctxkit.config_file.sections import checked
from ctxkit.errors import ConfigError
from ctxkit.profiles.keys import KEYS

SETTINGS = sorted(known_settings())
FLAT = [name for name in SETTINGS if name not in {"cost.price", "history.channels", "results.per_tool_limits"}]


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        ("triggers.max_turns", "30", 30),
        ("triggers.max_tokens", "50_000", 50_000),
        ("triggers.max_turns", "none", None),
        ("triggers.pressure_ratio", "0.75", 0.75),
        ("triggers.mode", "cost", "cost"),
        ("summary.prepare", "off", False),
        ("summary.prepare", "Yes", True),
        ("results.exclude_tools", "Read, Bash", ["Read", "Bash"]),
        ("results.per_tool_limits", '{"Bash": 500}', {"Bash": 500}),
        ("ladder.rungs", "summarize", ["summarize"]),
    ],
)
def test_a_value_is_read_by_the_type_of_its_setting(setting, text, value):
    assert named(setting).changes(text) == {setting: Change(value=value, by=setting)}


def test_a_key_of_another_system_changes_all_settings_that_it_stands_for():
    changes = named("agent_max_context_turns").changes("30")
    assert changes == {
        "triggers.max_turns": Change(value=30, by="agent_max_context_turns"),
        "session.max_turns": Change(value=30, by="agent_max_context_turns"),
    }
    assert named("agents.defaults.compaction.mode").changes("safeguard")["window.history_margin"].value == 1.2


@pytest.mark.parametrize("name", sorted(KEYS))
def test_every_key_of_another_system_stands_for_settings_that_there_are(name):
    assert set(named(name).settings) <= known_settings()


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_says_what_it_is_and_what_it_takes(setting):
    assert about(setting)
    assert takes(setting)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("trigger_ratio", "a number above 0 and at most 0.9"),
        ("triggers.max_turns", "a whole number of at least 1, or none"),
        ("triggers.mode", "one of 'quality', 'balanced', 'cost'"),
        ("summary.prepare", "on or off"),
        ("compression_prompt", "a text"),
    ],
)
def test_what_a_setting_takes_is_said_in_the_words_of_its_own_check(setting, words):
    assert takes(setting) == words


def test_an_unknown_name_is_answered_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"did you mean triggers\.max_turns\?"):
        named("triggers.max_turn")


def test_a_value_is_refused_with_the_name_that_was_typed_and_the_remedy():
    with pytest.raises(ConfigError, match="agent_max_context_turns is 0: give a whole number of at least 1"):
        named("agent_max_context_turns").changes("0")
    with pytest.raises(ConfigError, match="at most 500 characters"):
        named("compression_prompt").changes("x" * 501)


@given(st.sampled_from(SETTINGS), st.text(max_size=600))
def test_any_typed_value_is_one_that_the_section_takes_and_survives_json_or_is_refused(setting, text):
    try:
        changes = named(setting).changes(text)
    except ConfigError:
        return
    checked(setting, changes[setting].value)
    saved = json.loads(json.dumps({name: one.to_json() for name, one in changes.items()}))
    assert checked_changes(saved) == (changes, [])


@given(st.sampled_from(FLAT), st.one_of(st.integers(1, 10_000), st.floats(0.01, 0.9), st.booleans()))
def test_a_value_that_is_shown_can_be_typed_again(setting, value):
    try:
        checked(setting, value)
    except ConfigError:
        return
    assert typed(shown(value).replace(",", ""), hint_of(setting)) in (value, str(value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["value", "by", "triggers.max_turns", "x"]), inner),
    max_leaves=12,
)


@given(JSON)
def test_changes_that_were_saved_by_whatever_version_are_used_or_named(saved):
    changes, unusable = checked_changes(saved)
    assert set(changes) <= known_settings()
    assert not set(changes) & set(unusable)
    if isinstance(saved, dict):
        assert {*changes, *unusable} == set(saved)
