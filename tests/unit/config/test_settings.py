"""The limits in tokens that the settings give for a window."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import OverflowConfig, ResultsConfig, TriggersConfig, WindowConfig
from tests.unit.fakes import settings as plain


def settings(**changes):
    return replace(plain(), **changes)


def with_pressure(ratio, reserve, **triggers):
    return settings(
        triggers=TriggersConfig(pressure_ratio=ratio, **triggers),
        overflow=OverflowConfig(output_reserve_tokens=reserve),
    )


@pytest.mark.parametrize(
    ("window", "reserve", "tokens"), [(8_000, 1_000, 7_000), (8_192, 4_096, 4_096), (131_072, 4_096, 126_976)]
)
def test_what_is_available_is_the_window_without_the_whole_of_the_output_reserve(window, reserve, tokens):
    assert with_pressure(0.75, reserve).available_tokens(window) == tokens


def test_where_the_output_reserve_leaves_nothing_what_a_request_may_have_is_available():
    made = with_pressure(0.75, 4_096)

    assert made.available_tokens(4_000) == made.limit_tokens(4_000) == 3_500


def test_pressure_is_due_at_its_share_of_what_is_available():
    assert with_pressure(0.75, 4_096).most_tokens(131_072) == 0.75 * (131_072 - 4_096)


@given(ratio=st.floats(0.1, 1), per_estimate=st.floats(0.1, 4), tokens=st.integers(1, 200_000))
def test_pressure_by_an_estimate_is_due_exactly_where_the_estimate_is_over_its_share(ratio, per_estimate, tokens):
    most = with_pressure(ratio, 4_096).most_tokens(200_000, per_estimate=per_estimate)
    estimate, due = tokens / per_estimate, ratio * (200_000 - 4_096)

    if abs(estimate - due) * per_estimate > 1:
        limits = settings().most_tokens(200_000)
        assert (tokens >= most) == (estimate >= due or tokens >= limits)


@pytest.mark.parametrize(
    ("window", "fixed", "tokens"),
    [
        ({"history_ratio": 0.5}, 10_000, 110_000),
        ({"history_ratio": 0.5, "history_margin": 1.2}, 10_000, 130_000),
        ({"history_ratio": 0.9, "history_margin": 1.2}, 10_000, 200_000),
    ],
)
def test_the_historys_share_is_multiplied_by_its_margin_up_to_the_window(window, fixed, tokens):
    assert settings(window=WindowConfig(**window)).most_tokens(200_000, fixed_tokens=fixed) == tokens


@pytest.mark.parametrize(("of", "tokens"), [("window", 50_000), ("available", 48_000)])
def test_a_results_share_is_of_the_window_or_of_what_is_available(of, tokens):
    made = settings(
        results=ResultsConfig(limit_ratio=0.5, limit_of=of),
        overflow=OverflowConfig(output_reserve_tokens=4_000),
        tool_result_limit=100_000,
    )

    assert made.result_limit("fetch", 100_000) == tokens
