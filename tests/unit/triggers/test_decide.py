"""When a compression is due, by which limit, and what is said about it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import Price, TriggersConfig
from ctxkit.triggers import Boundary, Growth, Moment, decide, safe_limit

PRICE = Price(cached=0.1, written=1.25, output=5)
MOMENT = Moment(
    tokens=50_000,
    limit_tokens=199_000,
    context_size=200_000,
    ratio_tokens=160_000,
    is_ratio_explicit=False,
    floor_tokens=27_000,
    edit_cost=32_400,
    price=PRICE,
    growth=Growth(mean_tokens=2_000, largest_tokens=6_000, steps=50),
)
"""With these figures the headroom is sqrt(2 * 32,400 * 2,000 / 0.1) = 36,000 tokens."""
COST = TriggersConfig(mode="cost")

moments = st.builds(
    Moment,
    tokens=st.integers(0, 1_000_000),
    limit_tokens=st.integers(2_000, 1_000_000),
    context_size=st.integers(2_000, 1_000_000),
    ratio_tokens=st.integers(1_000, 900_000),
    is_ratio_explicit=st.just(False),
    floor_tokens=st.integers(0, 1_000_000),
    edit_cost=st.floats(0, 1e7),
    price=st.builds(Price, cached=st.floats(0, 1), written=st.floats(1, 2)),
    growth=st.builds(Growth, mean_tokens=st.floats(0, 1e5), largest_tokens=st.floats(0, 1e6), steps=st.integers(0, 50)),
    boundary=st.sampled_from([None, *Boundary]),
    is_task_open=st.booleans(),
    keep_tokens=st.integers(0, 100_000),
)


def test_in_mode_cost_it_is_due_one_headroom_above_what_an_edit_leaves():
    below, there = (decide(replace(MOMENT, tokens=tokens), COST) for tokens in (62_999, 63_000))

    assert (below.is_due, there.is_due) == (False, True)
    assert (there.trigger_tokens, there.headroom_tokens) == (63_000, 36_000)
    assert "63,000 tokens" in there.why
    assert "mode cost" in there.why


def test_where_edits_come_late_they_are_due_by_as_much_earlier():
    decision = decide(replace(MOMENT, late_tokens=4_000), COST)

    assert (decision.trigger_tokens, decision.headroom_tokens) == (59_000, 36_000)


def test_however_late_edits_come_half_a_headroom_grows_before_the_next_one():
    assert decide(replace(MOMENT, late_tokens=90_000), COST).trigger_tokens == 27_000 + 18_000


@given(moments, st.floats(0, 1e6))
def test_edits_that_come_late_never_make_the_next_one_later(moment, late):
    assert decide(replace(moment, late_tokens=late), COST).trigger_tokens <= decide(moment, COST).trigger_tokens


def test_balanced_is_earlier_for_each_resident_token_costs_attention_too():
    balanced = decide(MOMENT, TriggersConfig(mode="balanced", attention_price=0.3))

    assert balanced.headroom_tokens == 18_000


def test_balanced_without_a_price_of_attention_is_cost():
    assert decide(MOMENT, TriggersConfig(attention_price=0)).trigger_tokens == decide(MOMENT, COST).trigger_tokens


@pytest.mark.parametrize("mode", ["quality", "balanced", "cost"])
def test_a_ratio_that_was_set_wins_over_every_mode(mode):
    decision = decide(replace(MOMENT, is_ratio_explicit=True), TriggersConfig(mode=mode))

    assert (decision.trigger_tokens, decision.headroom_tokens) == (160_000, None)


@pytest.mark.parametrize("mode", ["balanced", "cost"])
def test_without_prices_the_default_ratio_decides(mode):
    decision = decide(replace(MOMENT, price=None), TriggersConfig(mode=mode))

    assert decision.trigger_tokens == 160_000
    assert "no price is known" in decision.why


def test_quality_waits_until_the_largest_step_might_no_longer_fit_whatever_tokens_cost():
    decisions = [decide(replace(MOMENT, price=price), TriggersConfig(mode="quality")) for price in (PRICE, None)]

    assert [each.trigger_tokens for each in decisions] == [193_000, 193_000]


def test_quality_keeps_the_reserve_and_a_mode_by_price_what_it_was_told():
    moment = replace(MOMENT, keep_tokens=10_000)

    assert [decide(moment, TriggersConfig(mode=mode)).keep_tokens for mode in ("quality", "cost")] == [0, 10_000]


@pytest.mark.parametrize("boundary", Boundary)
def test_at_a_boundary_it_is_due_from_seven_tenths_of_the_headroom_on(boundary):
    at_boundary = replace(MOMENT, boundary=boundary, tokens=53_000)

    assert decide(at_boundary, COST).is_due
    assert boundary.value in decide(at_boundary, COST).why
    assert not decide(replace(at_boundary, tokens=52_000), COST).is_due
    assert not decide(replace(at_boundary, boundary=None), COST).is_due


def test_while_a_task_is_open_it_waits_for_its_end_up_to_four_tenths_more():
    assert decide(replace(MOMENT, is_task_open=True), COST).trigger_tokens == 27_000 + int(1.4 * 36_000)


def test_a_limit_in_tokens_holds_beside_the_mode_and_the_ratio():
    for explicit in (True, False):
        moment = replace(MOMENT, is_ratio_explicit=explicit)
        decision = decide(replace(moment, most_tokens=40_000), TriggersConfig())
        assert (decision.is_due, decision.trigger_tokens, decision.headroom_tokens) == (True, 40_000, None)
        assert "max_tokens" in decision.why


@pytest.mark.parametrize(("mode", "resident"), [("cost", 0.1), ("balanced", 0.15)])
def test_a_summary_is_worth_its_price_where_what_it_frees_has_cost_as_much_to_read(mode, resident):
    moment = replace(MOMENT, summary_cost=18_000, summary_steps=24)

    freed = decide(moment, TriggersConfig(mode=mode)).summary_tokens

    steps = range(1, moment.summary_steps + 1)  # it has grown by as much at each
    reads = sum(resident * freed * step / moment.summary_steps for step in steps)
    assert reads == pytest.approx(moment.summary_cost, rel=0.05)


@given(moments, st.integers(1, 1_000), st.integers(1, 1_000))
def test_the_longer_ago_the_last_summary_is_the_less_the_next_one_must_free(moment, more, steps):
    moment = replace(moment, summary_cost=10_000, summary_steps=steps)
    later = replace(moment, summary_steps=steps + more)
    assert decide(later, COST).summary_tokens <= decide(moment, COST).summary_tokens


def test_where_a_resident_token_costs_nothing_no_summary_is_worth_its_price():
    free = replace(MOMENT, price=replace(PRICE, cached=0), summary_cost=1)
    assert decide(free, COST).summary_tokens == float("inf")


@given(moments, st.integers(0, 1_000_000))
def test_what_is_planned_before_it_is_due_must_free_no_more_than_when_it_is(moment, tokens):
    decision = decide(moment, COST)
    ahead = decision.ahead(tokens=tokens, floor_tokens=moment.floor_tokens)

    assert ahead.is_due
    assert 1 <= ahead.worth_tokens <= decision.worth_tokens
    there = decision.ahead(tokens=decision.trigger_tokens, floor_tokens=moment.floor_tokens)
    assert there.worth_tokens == decision.worth_tokens


def test_half_of_the_way_to_its_trigger_a_compression_that_is_planned_must_free_half_as_much():
    decision = decide(MOMENT, COST)

    assert decision.ahead(tokens=45_000, floor_tokens=27_000).worth_tokens == decision.worth_tokens / 2


def test_too_many_messages_are_due_at_no_price_and_half_of_them_stay():
    triggers = TriggersConfig(max_messages=40)

    assert not decide(replace(MOMENT, tokens=9_000, messages=40), triggers).is_due
    decision = decide(replace(MOMENT, tokens=9_000, messages=41), triggers)
    assert (decision.is_due, decision.keep_messages, decision.worth_tokens) == (True, 20, 1)
    assert decision.why == "41 messages are over 40 (max_messages)"


def test_too_many_turns_are_due_at_no_price_and_half_of_them_stay():
    decision = decide(replace(MOMENT, tokens=9_000, turns=21), TriggersConfig(max_turns=20))

    assert (decision.is_due, decision.keep_turns, decision.keep_messages) == (True, 10, None)


@given(moments, st.sampled_from(["quality", "balanced", "cost"]))
def test_no_mode_ever_waits_beyond_the_safe_limit(moment, mode):
    decision = decide(moment, TriggersConfig(mode=mode))

    assert decision.trigger_tokens <= safe_limit(moment.limit_tokens, moment.growth.largest(moment.context_size))


@given(moments, st.sampled_from(["balanced", "cost"]))
def test_a_mode_by_price_never_waits_longer_than_the_ratio_would(moment, mode):
    assert decide(moment, TriggersConfig(mode=mode)).trigger_tokens <= moment.ratio_tokens


@given(moments, st.floats(1, 10))
def test_the_dearer_an_edit_the_later_it_is_due(moment, factor):
    dearer = replace(moment, edit_cost=moment.edit_cost * factor)
    assert decide(moment, COST).trigger_tokens <= decide(dearer, COST).trigger_tokens


@given(moments, st.floats(1, 10))
def test_the_dearer_a_cached_token_the_earlier_it_is_due(moment, factor):
    price = replace(moment.price, cached=moment.price.cached * factor)
    assert decide(replace(moment, price=price), COST).trigger_tokens <= decide(moment, COST).trigger_tokens


@given(moments, st.sampled_from(["quality", "balanced", "cost"]))
def test_what_is_aimed_at_lies_below_the_trigger_and_is_worth_at_least_a_token(moment, mode):
    decision = decide(moment, TriggersConfig(mode=mode))

    assert decision.goal_tokens <= decision.trigger_tokens
    assert decision.worth_tokens >= 1


def test_an_edit_that_frees_less_than_half_a_headroom_is_not_worth_its_price():
    assert decide(replace(MOMENT, tokens=63_000), COST).worth_tokens == 18_000


def test_where_the_window_leaves_less_room_than_the_headroom_half_of_that_room_is_enough():
    moment = replace(MOMENT, floor_tokens=140_000, tokens=160_000)

    decision = decide(moment, COST)

    assert (decision.is_due, decision.trigger_tokens, decision.worth_tokens) == (True, 160_000, 10_000)


# Off


@given(moment=moments, most=st.none() | st.integers(1, 1_000_000))
def test_where_it_is_off_it_is_due_only_where_the_request_would_not_fit(moment, most):
    decision = decide(
        replace(moment, most_tokens=most, messages=100, turns=100),
        TriggersConfig(automatic=False, max_messages=1, max_turns=1, mode="cost"),
    )

    assert decision.is_due == (moment.tokens >= moment.limit_tokens)
    assert decision.trigger_tokens == moment.limit_tokens
    assert "triggers.automatic is off" in decision.why
