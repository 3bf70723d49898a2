"""Weights add up exactly and survive JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import ContentClass, Weight

WEIGHTS = st.lists(st.integers(-(10**9), 10**9), min_size=len(ContentClass), max_size=len(ContentClass)).map(
    lambda numbers: Weight(tuple(map(float, numbers)))
)


@given(WEIGHTS, WEIGHTS)
def test_what_is_added_can_be_taken_away_exactly(a: Weight, b: Weight) -> None:
    assert a + b - b == a
    assert (a + b).total == a.total + b.total


@given(st.lists(WEIGHTS, max_size=20))
def test_the_sum_of_many_is_what_adding_one_by_one_gives(weights: list[Weight]) -> None:
    one_by_one = Weight.zero()
    for weight in weights:
        one_by_one += weight

    assert Weight.sum(weights) == one_by_one


@given(WEIGHTS)
def test_a_weight_survives_json(weight: Weight) -> None:
    assert Weight.from_json(json.loads(json.dumps(weight.to_json()))) == weight


def test_a_weight_is_read_by_class() -> None:
    weight = Weight.of({ContentClass.JSON: 5, ContentClass.MEDIA: 7})

    assert (weight[ContentClass.JSON], weight[ContentClass.MEDIA], weight[ContentClass.PROSE]) == (5, 7, 0)


@pytest.mark.parametrize(
    "junk",
    [None, {}, [], [1.0], ["1"] * len(ContentClass), [float("nan")] * len(ContentClass), [True] * len(ContentClass)],
)
def test_junk_is_refused_as_a_weight(junk: object) -> None:
    with pytest.raises(ValueError, match="give a list of"):
        Weight.from_json(junk)
