"""Up to where a window may be filled."""

from hypothesis import given
from hypothesis import strategies as st

from ctxkit.triggers import safe_limit


@given(limit=st.integers(2, 2_000_000), step=st.floats(0, 3_000_000))
def test_the_safe_limit_leaves_room_for_a_step_and_never_less_than_half(limit, step):
    safe = safe_limit(limit, step)
    assert limit // 2 <= safe <= limit
    assert safe + step <= limit + 1 or safe == limit // 2
