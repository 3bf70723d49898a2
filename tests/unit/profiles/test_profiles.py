"""Profiles are data: each value has its place in a document, and is a setting that there is."""

import re
from dataclasses import fields

import pytest

from ctxkit.config import Settings
from ctxkit.engine.layer import DROPPED
from ctxkit.errors import ConfigError
from ctxkit.profiles import KEYS, PROFILES, find_profile, keys_of
from ctxkit.results.marker import TRUNCATED, guidance
from ctxkit.rules.rule import AUTO_COOLDOWN_S
from ctxkit.sessions import COMPRESSION_GRACE_S, Retention, SessionLocks
from ctxkit.sessions.restore import LEAST_TURNS, TURNS_DIVISOR
from ctxkit.sessions.transcript import file, index
from ctxkit.summary import stages
from ctxkit.summary.state import MOST_FAILURES

EVERY = [(profile.name, key) for profile in PROFILES.values() for key in profile.values]
SECTIONS = {field.name: field.default_factory for field in fields(Settings) if "Config" in str(field.type)}


def test_there_are_five_profiles_and_the_default_changes_nothing():
    assert list(PROFILES) == ["default", "agentscope", "cowagent", "openclaw", "digitorn"]
    assert not PROFILES["default"].values


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_each_value_names_the_file_the_line_and_the_words_that_it_is_from(name, key):
    assert re.fullmatch(r"[a-z0-9.-]+\.txt:\d+ .+", PROFILES[name].values[key].source)


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_each_value_is_a_setting_that_there_is_and_its_section_takes_it(name, key):
    section, _, field = key.rpartition(".")
    value = PROFILES[name].values[key].value
    if not section:
        assert key in {each.name for each in fields(Settings)}
    elif section in SECTIONS:
        made = SECTIONS[section](**{field: value})
        assert getattr(made, field) == value
    elif section == "retention":
        assert getattr(Retention(**{field: value}), field) == value
    elif section == "locks":
        SessionLocks(**{field: value})
    else:
        assert section == "session"


def test_a_profile_is_found_by_its_name():
    assert find_profile("openclaw") is PROFILES["openclaw"]


@pytest.mark.parametrize(
    ("name", "near"), [("openclawd", "openclaw"), ("OpenClaw", "openclaw"), ("agentscop", "agentscope")]
)
def test_an_unknown_profile_is_refused_with_the_names_and_the_nearest(name, near):
    with pytest.raises(ConfigError) as refused:
        find_profile(name)

    assert repr(name) in str(refused.value)
    assert all(repr(known) in str(refused.value) for known in PROFILES)
    assert f"did you mean {near!r}?" in str(refused.value)


def test_a_section_is_a_copy_and_a_missing_one_is_empty():
    profile = find_profile("digitorn")

    profile.section("triggers")["cooldown_turns"] = 99

    assert profile.section("triggers")["cooldown_turns"] == 2
    assert profile.section("nothing") == {}


def test_a_constant_of_a_document_is_the_one_that_ctxkit_has():
    ours = {
        "largest trigger ratio": 0.9,
        "first line of the truncation marker": TRUNCATED,
        "least turns restored": LEAST_TURNS,
        "turns allowed for each turn restored": TURNS_DIVISOR,
        "seconds that a cached index is good for": index.CACHE_S,
        "tries of a rename": index._TRIES,
        "seconds between two tries of a rename": index._PAUSE_S,
        "bytes read ahead of a session's file": file.PREWARM_BYTES,
        "least messages in a part of a staged summary": stages._LEAST_MESSAGES,
        "tool failures in a summary": MOST_FAILURES,
        "seconds that a compression may hold a lock beyond its time-out": COMPRESSION_GRACE_S,
        "what stands in place of messages that were cut": DROPPED,
        "first line of what follows a list that was cut": guidance("filesystem.find", kept=200, total=5000).partition(
            "\n"
        )[0],
        "seconds between two fires of the rule that is put in": AUTO_COOLDOWN_S,
    }

    said = {name: each.value for profile in PROFILES.values() for name, each in profile.constants.items()}
    assert said == ours


# The systems' own names


def test_each_name_of_a_system_stands_for_a_setting_that_there_is():
    for key in KEYS.values():
        for field in key.fields:
            section, _, name = field.partition(".")
            known = {each.name for each in fields(SECTIONS.get(section, Retention))} | {"max_turns"}
            assert name in known


@pytest.mark.parametrize(
    ("name", "value", "settings"),
    [
        ("agent_max_context_tokens", 80_000, {"triggers.max_tokens": 80_000}),
        ("agent_max_context_turns", 30, {"triggers.max_turns": 30, "session.max_turns": 30}),
        ("agents.defaults.compaction.mode", "safeguard", {"window.history_margin": 1.2}),
        ("agents.defaults.compaction.mode", "default", {"window.history_margin": 1.0}),
        ("keep_recent", 6, {"ladder.keep_messages": 6}),
    ],
)
def test_a_value_of_a_system_becomes_ctxkits_settings(name, value, settings):
    assert KEYS[name].settings(value) == settings


def test_a_word_that_a_system_does_not_know_is_refused_with_those_that_it_does():
    with pytest.raises(ConfigError, match=r"mode is 'careful': give 'safeguard' or 'default'"):
        KEYS["agents.defaults.compaction.mode"].settings("careful")


def test_the_names_of_one_system_are_its_own():
    assert set(keys_of("cowagent")) == {"agent_max_context_tokens", "agent_max_context_turns", "agent_max_steps"}
    assert not keys_of("default")
