"""`ctxkit profiles`, as a person runs it, and the page that is made of it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxkit.cli import app
from ctxkit.cli.profiles import in_words, markdown, side_by_side
from ctxkit.profiles import PROFILES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "profiles.md"


def ran(*args: str):
    outcome = CliRunner().invoke(app, ["profiles", *args], env={"COLUMNS": "300"})
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def test_all_profiles_stand_side_by_side_with_every_setting_that_one_of_them_has():
    shown = ran().stdout

    assert all(name in shown for name in PROFILES)
    assert all(key in shown for profile in PROFILES.values() for key in profile.values)


def test_a_row_has_ctxkits_default_and_each_profiles_value_or_that_it_is_the_default():
    rows = {row[0]: row[1:] for row in side_by_side()}

    assert rows["trigger_ratio"] == ("0.8", "0.8", "0.9", "0.9", "0.9")
    assert rows["triggers.max_tokens"] == ("none", "=", "50,000", "=", "=")
    assert rows["overflow.output_reserve_tokens"] == ("1,024", "=", "=", "=", "4,096")
    assert rows["session.restore"] == ("whole", "=", "texts", "=", "=")
    assert rows["locks.timeout_s"] == ("10.0", "=", "=", "10.0", "=")


def test_one_profile_is_explained_value_by_value_with_the_words_of_its_document():
    shown = ran("digitorn").stdout

    assert "keep_recent | int | 10" in shown
    assert "digitorn-context-management.txt:46" in shown
    assert "agent_max_context_tokens" not in shown


def test_as_json_there_is_one_object_and_nothing_else():
    said = json.loads(ran("--json").stdout)

    assert list(said) == list(PROFILES)
    value = said["cowagent"]["values"]["triggers.max_tokens"]
    assert value["value"] == 50_000
    assert value["source"].startswith("cowagent-short-term-memory-2026-06.txt:67 ")
    assert list(json.loads(ran("openclaw", "--json").stdout)) == ["openclaw"]


def test_an_unknown_profile_is_refused_with_the_nearest():
    outcome = ran("openclawd")

    assert outcome.exit_code == 2
    assert "did you mean 'openclaw'?" in outcome.stderr


def test_the_reference_page_has_the_profiles_as_they_are():
    assert PAGE.read_text(encoding="utf-8").endswith(markdown()), (
        "write the page's tables anew: keep what stands above '## Side by side', and put `ctxkit profiles --markdown` below"
    )
    assert ran("--markdown").stdout == markdown()


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, "yes"), (None, "none"), (50_000, "50,000"), (0.5, "0.5"), (("a", "b"), "a, b"), ("x" * 50, "x" * 39 + "…")],
)
def test_a_value_is_shown_as_a_person_writes_it(value, words):
    assert in_words(value) == words
