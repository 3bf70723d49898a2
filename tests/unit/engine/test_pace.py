"""When a summary is begun so that it is there in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.engine.pace import Pace

TIMES = st.floats(0, 10_000, allow_nan=False)


def a_pace(*, summary_s: float, step_s: float) -> Pace:
    return Pace(summary_s=summary_s, step_s=step_s)


def test_a_summary_is_begun_as_many_steps_before_the_trigger_as_it_takes_and_one_to_spare():
    start = a_pace(summary_s=11, step_s=5).start_tokens(160_000, floor_tokens=30_000, growth_tokens=2000)

    assert start == 160_000 - (3 + 1) * 2000


def test_what_has_not_been_timed_is_taken_for_a_slow_summary_and_usual_steps():
    start = Pace().start_tokens(160_000, floor_tokens=30_000, growth_tokens=2000)

    assert (start, Pace().is_measured) == (160_000 - (4 + 1) * 2000, False)


@given(TIMES, TIMES, st.integers(0, 100_000), st.integers(1, 100_000), st.floats(1, 50_000))
def test_it_is_never_begun_before_most_of_the_way_nor_behind_the_trigger(summary_s, step_s, floor, way, growth):
    start = a_pace(summary_s=summary_s, step_s=step_s).start_tokens(
        floor + way, floor_tokens=floor, growth_tokens=growth
    )

    assert floor + 0.6 * way <= start + 1e-6
    assert start <= floor + way


@given(TIMES, TIMES, TIMES)
def test_a_slower_summary_is_never_begun_later(one, other, step_s):
    starts = [
        a_pace(summary_s=summary_s, step_s=step_s).start_tokens(100_000, floor_tokens=0, growth_tokens=500)
        for summary_s in sorted((one, other))
    ]

    assert starts[0] >= starts[1]


def test_the_newest_times_count_most():
    pace = Pace().after_summary(10).after_step(4)
    for _ in range(30):
        pace = pace.after_summary(2).after_step(1)

    assert pace.summary_s == pytest.approx(2, abs=0.01)
    assert pace.step_s == pytest.approx(1, abs=0.01)


def test_a_clock_that_jumps_back_gives_no_negative_time():
    assert Pace().after_step(-5).step_s == 0


@given(TIMES, TIMES)
def test_it_comes_back_from_the_agents_state(summary_s, step_s):
    pace = a_pace(summary_s=summary_s, step_s=step_s)

    again = Pace.from_json({**pace.to_json(), "floor": 7})

    assert again.summary_s == pytest.approx(summary_s, abs=1e-3)
    assert again.step_s == pytest.approx(step_s, abs=1e-3)


@pytest.mark.parametrize("data", [None, [], {"summary_s": "soon"}, {"step_s": float("nan")}, {"step_s": -1}])
def test_of_what_somebody_else_wrote_there_nothing_is_believed(data):
    assert Pace.from_json(data) == Pace()
