"""How full a window is, and up to where it may be filled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.triggers import pressure, safe_limit


@pytest.mark.row("D2")
def test_pressure_is_what_is_used_of_what_the_answer_leaves():
    assert pressure(90_000, context_size=124_096, output_reserved=4_096) == pytest.approx(0.75)
    assert pressure(130_000, context_size=124_096, output_reserved=4_096) > 1


@pytest.mark.row("D2")
def test_a_window_that_the_answer_takes_wholly_is_always_too_full():
    assert pressure(1, context_size=4_096, output_reserved=4_096) == float("inf")


@given(limit=st.integers(2, 2_000_000), step=st.floats(0, 3_000_000))
def test_the_safe_limit_leaves_room_for_a_step_and_never_less_than_half(limit, step):
    safe = safe_limit(limit, step)
    assert limit // 2 <= safe <= limit
    assert safe + step <= limit + 1 or safe == limit // 2
