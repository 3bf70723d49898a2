"""Calibration finds a tokenizer's ratios from a few mixed reports, and junk does not break it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import Calibration, ContentClass, Weight

TRUE = {
    ContentClass.PROSE: 1.05,
    ContentClass.CODE: 0.95,
    ContentClass.JSON: 1.15,
    ContentClass.CJK: 0.7,
    ContentClass.DENSE: 1.2,
    ContentClass.LOG: 0.9,
    ContentClass.FRAME: 1.4,
}


def mixed(rnd: random.Random) -> Weight:
    main, other = rnd.sample([c for c in TRUE if c is not ContentClass.FRAME], 2)
    return Weight.of(
        {main: rnd.randint(500, 4000), other: rnd.randint(0, 800), ContentClass.FRAME: rnd.randint(10, 40)}
    )


def truth(weight: Weight) -> float:
    return sum(weight[content_class] * ratio for content_class, ratio in TRUE.items())


def learnt(reports: int, *, noise_ratio: float = 0.0, seed: int = 1) -> Calibration:
    rnd = random.Random(seed)
    calibration = Calibration()
    for _ in range(reports):
        delta = mixed(rnd)
        calibration.update(delta, truth(delta) * (1 + rnd.uniform(-noise_ratio, noise_ratio)))
    return calibration


def test_nothing_learnt_means_the_priors_count() -> None:
    assert Calibration().scale(Weight.of({ContentClass.CODE: 120, ContentClass.CJK: -20})) == 100


@pytest.mark.parametrize("seed", range(5))
def test_the_ratios_of_mixed_reports_are_found(seed: int) -> None:
    calibration = learnt(40, noise_ratio=0.02, seed=seed)

    for content_class in TRUE.keys() - {ContentClass.FRAME}:
        assert calibration.ratio(content_class) == pytest.approx(TRUE[content_class], abs=0.05)


def test_one_report_of_everything_is_met_without_guessing_at_a_single_class() -> None:
    calibration = Calibration()
    whole = Weight.of(dict.fromkeys(TRUE, 3000.0))

    calibration.update(whole, 0.9 * whole.total)

    assert calibration.scale(whole) == pytest.approx(0.9 * whole.total, rel=0.01)
    assert all(0.85 < calibration.ratio(content_class) < 1 for content_class in TRUE)


def test_a_removal_teaches_as_much_as_an_addition() -> None:
    calibration = Calibration()
    gone = Weight.zero() - Weight.of({ContentClass.CJK: 5000})

    calibration.update(gone, -3500)

    assert calibration.ratio(ContentClass.CJK) == pytest.approx(0.7, abs=0.02)


def test_thinking_that_is_not_billed_is_learnt_to_weigh_nothing() -> None:
    calibration = Calibration()
    for prose in (300, 900, 100, 700, 400):
        calibration.update(Weight.of({ContentClass.THINKING: 2000, ContentClass.PROSE: prose}), prose)

    assert calibration.ratio(ContentClass.THINKING) < 0.05
    assert calibration.ratio(ContentClass.PROSE) == pytest.approx(1, abs=0.1)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(-(10**6), 10**6), min_size=len(ContentClass), max_size=len(ContentClass)),
            st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=30,
    )
)
def test_ratios_stay_in_bounds_whatever_is_reported(reports: list[tuple[list[int], float]]) -> None:
    calibration = Calibration()
    for numbers, tokens in reports:
        calibration.update(Weight(tuple(map(float, numbers))), tokens)

    assert all(0 <= calibration.ratio(content_class) <= 4 for content_class in ContentClass)
    assert all(calibration.ratio(c) >= 0.25 for c in TRUE)


def test_what_was_learnt_survives_json() -> None:
    calibration = learnt(20)

    restored = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))

    whole = Weight.of(dict.fromkeys(TRUE, 1000.0))
    assert restored.scale(whole) == pytest.approx(calibration.scale(whole), rel=1e-4)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.sampled_from(["ratios", "variances"]), inner),
        max_leaves=20,
    )
)
def test_junk_restores_a_fresh_calibration(junk: Any) -> None:
    assert Calibration.from_json(junk).scale(Weight.of({ContentClass.LOG: 7})) == 7


@given(st.lists(st.floats(), min_size=len(ContentClass), max_size=len(ContentClass)))
def test_no_saved_variances_make_it_run_away(variances: list[float]) -> None:
    calibration = Calibration.from_json({"ratios": [1.0] * len(ContentClass), "variances": variances})
    for _ in range(20):
        calibration.update(Weight.of({ContentClass.CODE: 900, ContentClass.JSON: 500}), 1400)

    assert all(0 <= calibration.ratio(content_class) <= 4 for content_class in ContentClass)
