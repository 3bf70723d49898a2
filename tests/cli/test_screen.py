"""What a person sees of a race, on a terminal and in a file."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ctxkit import telemetry
from ctxkit.cli.report import Asked, Began, Figures, Noted, Noticed, Race, Stepped, Stored
from ctxkit.cli.screen import Screen

OURS = Figures(
    contestant="ctxkit",
    survived=True,
    died_of=None,
    steps=48,
    steps_total=48,
    model_calls=68,
    refused_calls=0,
    input_tokens=672_970,
    cached_tokens=315_428,
    compressions=20,
    longest_request_tokens=14_079,
    results_shortened=34,
    stored=(Stored(where="sessions/*/context.jsonl", files=1, size_bytes=452_757),),
    is_fact_in_context=False,
    answer="It has 910 lines.",
    is_answer_right=True,
    is_constraint_live=True,
    seconds=8.0,
)
STOCK = replace(
    OURS,
    contestant="stock",
    survived=False,
    died_of="the provider refused a request",
    steps=12,
    answer=None,
    is_answer_right=False,
)
RACE = Race(
    window_tokens=16_384,
    constraint="Only read.",
    question="How many lines?",
    expected="It has 910 lines.",
    stock=STOCK,
    ctxkit=OURS,
)
STEP = Stepped(contestant="ctxkit", number=7, total=48, what="read ssl.py", tokens=12_288)


def shown(*moments, terminal: bool = False, race: Race | None = None, kept_in: Path | None = None) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system="standard" if terminal else None)
    with Screen(console, window_tokens=16_384) as screen:
        screen.opening()
        for moment in moments:
            screen.show(moment)
    if race is not None:
        screen.closing(race, kept_in=kept_in)
    return file.getvalue()


def test_without_a_terminal_every_step_is_a_plain_line():
    lines = shown(Began(contestant="ctxkit"), Asked(text="Survey it."), STEP)
    assert "\x1b" not in lines
    assert "user: Survey it." in lines
    assert "7/48  read ssl.py (12,288 tokens)" in lines


def test_a_terminal_gets_a_gauge_with_a_mark_at_the_trigger():
    drawn = shown(STEP, terminal=True)
    assert "12,288 of 16,384 tokens" in drawn
    assert "█" * 36 in drawn  # 12,288 of 16,384 is 36 of 48 cells
    assert "│" in drawn


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (telemetry.STARTED, {"tokens_before": 13_153}, "compressing 13,153 tokens"),
        (
            telemetry.DONE,
            {"tokens_before": 13_153, "tokens_after": 5_711, "seconds": 0.04, "summary": "warm"},
            "compressed 13,153 to 5,711 tokens in 0.04 s, summary: warm",
        ),
        (telemetry.FAILED, {"problems": ["disk full", "again"]}, "not compressed: disk full; again"),
        (
            telemetry.SHORTENED,
            {"tool": "Bash", "tokens_before": 4_857, "tokens_after": 2_897},
            "Bash, 4,857 tokens: stored, 2,897 stay in the context",
        ),
        (telemetry.STORE_FAILED, {"what": "messages", "problem": "disk full"}, "not stored: messages: disk full"),
        (telemetry.OVERFLOW, {"limit_tokens": 16_000, "needed_tokens": None}, "takes 16,000 tokens at most"),
    ],
)
def test_an_event_is_told_in_words(name, value, words):
    assert words in shown(Noticed(name=name, value=value))


def test_the_stages_of_a_compression_are_not_worth_a_line():
    assert shown(Noticed(name=telemetry.PROGRESS, value={"stage": "plan"})) == shown()


def test_text_that_looks_like_markup_is_shown_as_it_is():
    assert "[red]no[/nothing]" in shown(Noted(text="[red]no[/nothing]"))


def test_the_end_says_who_died_of_what_and_compares_both():
    end = shown(STOCK, OURS, race=RACE, kept_in=Path("kept"))
    assert "died after step 12 of 48 (8.0 s): the provider refused a request" in end
    assert "came to the end after 48 steps" in end
    for cell in ("12 of 48", "48 of 48", "672,970", "14,079", "1 file, 453 kB"):
        assert cell in end
    assert "stock:    (not alive to be asked)" in end
    assert "ctxkit:   It has 910 lines." in end
    assert "Kept in kept" in end
    assert "\x1b" not in end


def test_a_quiet_console_shows_nothing():
    file = io.StringIO()
    with Screen(Console(file=file, quiet=True), window_tokens=16_384) as screen:
        screen.opening()
        screen.show(STEP)
    screen.closing(RACE, kept_in=None)
    assert file.getvalue() == ""
