"""What an edit costs, and how far a context may grow between two of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import Price
from ctxkit.triggers import edit_cost, headroom

SHEETS = {
    "Claude": Price(cached=0.1, written=1.25, output=5),
    "Claude 5.5": Price(cached=0.05, written=1.25, output=5),
    "GPT-5": Price(cached=0.1, written=1, output=8),
    "DeepSeek flash": Price(cached=0.02, written=1, output=4),
    "Kimi": Price(cached=0.2, written=1, output=4),
    "no cache": Price(cached=1, written=1, output=5),
}
GROWTH, TAIL, PREFIX, SUMMARY = 2_000, 15_000, 12_000, 1_500
"""Tokens a step, kept behind the edit, before it, and of the summary: the example that the table was worked out for."""

tokens = st.floats(0, 1_000_000)
prices = st.builds(Price, cached=st.floats(0.01, 1), written=st.floats(1, 2), output=st.floats(0, 10))


def best(price: Price, *, call: str) -> float:
    """Return the headroom of the example, its summary asked from the request as it is at the trigger."""
    room = 0.0
    for _ in range(100):
        cost = edit_cost(
            price,
            request_tokens=PREFIX + TAIL + room,
            kept_tokens=TAIL,
            inserted_tokens=SUMMARY,
            answer_tokens=SUMMARY,
            call=call,
        )
        room = headroom(cost, GROWTH, price)
    return room


@pytest.mark.parametrize(
    ("sheet", "warm", "cold", "free"),
    [
        ("Claude", 36_000, 80_000, 27_000),
        ("Claude 5.5", 50_000, 136_000, 39_000),
        ("GPT-5", 36_000, 71_000, 24_000),
        ("DeepSeek flash", 69_000, 241_000, 56_000),
        ("Kimi", 24_000, 42_000, 16_000),
        ("no cache", 14_000, 14_000, 2_450),
    ],
)
def test_the_headroom_of_each_price_sheet_is_that_of_the_closed_form(sheet, warm, cold, free):
    price = SHEETS[sheet]

    assert best(price, call="warm") == pytest.approx(warm, rel=0.1)
    assert best(price, call="cold") == pytest.approx(cold, rel=0.1)
    assert best(price, call="none") == pytest.approx(free, rel=0.1)


@pytest.mark.parametrize("price", SHEETS.values(), ids=SHEETS)
def test_no_other_number_of_steps_between_two_edits_is_cheaper(price):
    cost = edit_cost(price, request_tokens=27_000, kept_tokens=TAIL, inserted_tokens=SUMMARY, answer_tokens=SUMMARY)

    def a_step(steps: float) -> float:
        return price.cached * GROWTH * steps / 2 + cost / steps

    steps = headroom(cost, GROWTH, price) / GROWTH
    assert min(a_step(steps * factor) for factor in (0.25, 0.5, 0.7, 1.4, 2, 4)) > a_step(steps)
    assert a_step(steps * 0.7) < 1.07 * a_step(steps)
    assert a_step(steps * 1.4) < 1.07 * a_step(steps)


@given(low=tokens, high=tokens, growth=st.floats(1, 50_000), price=prices)
def test_the_dearer_an_edit_the_later_it_is_made(low, high, growth, price):
    low, high = sorted([low, high])
    assert headroom(low, growth, price) <= headroom(high, growth, price)


@given(cost=tokens, growth=st.floats(1, 50_000), low=st.floats(0.001, 1), high=st.floats(0.001, 1))
def test_the_dearer_a_cached_token_the_earlier_an_edit_is_made(cost, growth, low, high):
    low, high = sorted([low, high])
    assert headroom(cost, growth, Price(cached=high)) <= headroom(cost, growth, Price(cached=low))


@given(cost=tokens, growth=st.floats(1, 50_000), price=prices, attention=st.floats(0, 1))
def test_a_price_of_attention_never_makes_an_edit_later(cost, growth, price, attention):
    assert headroom(cost, growth, price, attention=attention) <= headroom(cost, growth, price)


def test_what_costs_nothing_to_keep_is_kept():
    assert headroom(1_000, 2_000, Price(cached=0)) == math.inf


@given(price=prices, request=tokens, kept=tokens, inserted=tokens, recalls=st.floats(0, 10))
def test_a_cold_cache_makes_no_edit_dearer(price, request, kept, inserted, recalls):
    def cost(*, is_cold: bool) -> float:
        return edit_cost(
            price,
            request_tokens=request,
            kept_tokens=kept,
            inserted_tokens=inserted,
            recalls=recalls,
            is_cold=is_cold,
        )

    assert 0 <= cost(is_cold=True) <= cost(is_cold=False)


def test_each_recall_that_is_to_be_expected_is_part_of_the_cost():
    price = SHEETS["Claude"]
    costs = [
        edit_cost(price, request_tokens=60_000, kept_tokens=TAIL, inserted_tokens=SUMMARY, recalls=n) for n in range(3)
    ]

    # A read of the whole request, what is recalled, and the call for it.
    assert costs[1] - costs[0] == pytest.approx(0.1 * 60_000 + 1.25 * 1_500 + 5 * 60)
    assert costs[2] - costs[1] == pytest.approx(costs[1] - costs[0])
