"""What holds an automatic compression back, and what does not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.triggers import Rest

LIMIT, SAFE = 100_000, 90_000


def why(rest: Rest, tokens: int = 80_000, *, cooldown: int = 0) -> str | None:
    return rest.why(tokens, limit_tokens=LIMIT, safe_tokens=SAFE, cooldown_turns=cooldown)


def after_turns(rest: Rest, turns: int) -> Rest:
    for _ in range(turns):
        rest = rest.after_turn()
    return rest


def test_nothing_holds_the_first_compression_back():
    assert why(after_turns(Rest(), 3), cooldown=2) is None


@pytest.mark.row("D7")
@pytest.mark.parametrize(("turns", "is_held"), [(0, True), (1, True), (2, True), (3, False)])
def test_for_two_turns_behind_a_compression_none_is_tried(turns, is_held):
    rest = after_turns(Rest().after_edit(until_tokens=0), turns)

    assert (why(rest, cooldown=2) is not None) == is_held


@pytest.mark.row("D7")
def test_turns_never_hold_back_what_is_needed_to_fit():
    rest = Rest().after_edit(until_tokens=0)

    assert why(rest, SAFE, cooldown=2) is None
    assert why(rest, SAFE - 1, cooldown=2) is not None


def test_without_a_cooldown_the_next_step_may_compress_again():
    assert why(Rest().after_edit(until_tokens=0)) is None


def test_after_a_failure_nothing_is_tried_until_the_context_has_grown_or_no_longer_fits():
    rest = Rest().after_failure(until_tokens=85_000)

    assert (rest.failures, why(rest, 84_999) is None, why(rest, 85_000) is None) == (1, False, True)
    assert why(Rest().after_failure(until_tokens=2 * LIMIT), LIMIT) is None


def test_a_compression_that_was_applied_ends_a_row_of_failures():
    rest = Rest().after_failure(until_tokens=1).after_failure(until_tokens=2)

    assert (rest.failures, rest.after_edit(until_tokens=0).failures) == (2, 0)


def test_behind_an_undo_so_many_turns_go_without_a_compression_unless_it_would_not_fit():
    rest = Rest().after_edit(until_tokens=0).after_undo(2)

    assert [why(after_turns(rest, turns)) is None for turns in range(4)] == [False, False, True, True]
    assert why(rest, SAFE) is None


@given(st.integers(0, 10**7), st.integers(0, 5), st.integers(0, 5))
def test_nothing_is_held_back_that_no_longer_fits(until, turns, cooldown):
    rest = Rest(until_tokens=until, turns=turns, quiet_turns=3)
    assert why(rest, LIMIT, cooldown=cooldown) is None


@given(
    st.builds(
        Rest,
        until_tokens=st.integers(0, 10**7),
        turns=st.none() | st.integers(0, 99),
        quiet_turns=st.integers(0, 9),
        failures=st.integers(0, 9),
    )
)
def test_it_survives_a_restart(rest):
    assert Rest.from_json(json.loads(json.dumps(rest.to_json()))) == rest


@pytest.mark.parametrize("saved", [None, 3, {}, {"turns": 1}, {**Rest().to_json(), "until_tokens": "soon"}])
def test_what_cannot_be_read_holds_nothing_back(saved):
    assert Rest.from_json(saved) == Rest()
