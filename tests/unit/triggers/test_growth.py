"""How fast a context grows, as seen and as kept over a restart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.triggers import Growth

steps = st.lists(st.integers(0, 100_000), max_size=200)


def grown(added: list[int]) -> Growth:
    growth = Growth()
    for tokens in added:
        growth = growth.after(tokens)
    return growth


def test_before_a_step_was_seen_a_small_window_is_expected_to_fill_more_slowly():
    assert (Growth().tokens(200_000), Growth().tokens(8_000)) == (2_000, 160)


def test_the_mean_of_the_steps_is_expected_next():
    assert grown([1_000, 3_000]).tokens(200_000) == 2_000


def test_what_was_long_ago_is_forgotten():
    growth = grown([50_000] * 50 + [1_000] * 400)

    assert growth.tokens(200_000) == pytest.approx(1_000, rel=0.05)
    assert growth.largest(200_000) < 2_000


@given(steps)
def test_the_mean_lies_within_what_was_seen_and_the_largest_is_never_below_it(added):
    growth = grown(added)
    if added:
        assert min(added) - 1e-6 <= growth.mean_tokens <= max(added) + 1e-6
    assert growth.largest(10_000) >= growth.tokens(10_000) >= 1


@given(steps)
def test_what_was_learnt_survives_a_restart(added):
    growth = grown(added)
    assert Growth.from_json(json.loads(json.dumps(growth.to_json()))) == growth


@pytest.mark.parametrize("saved", [None, [], {}, {"mean_tokens": "much"}, {"mean_tokens": -1, "steps": 3}])
def test_what_cannot_be_read_is_begun_anew(saved):
    assert Growth.from_json(saved) == Growth()
