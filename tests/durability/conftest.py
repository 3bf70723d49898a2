"""How much is tried: a short form by default, the full one where the environment has CTXKIT_CRASH_FULL=1 (`nox -s crash`)."""

import os
from collections.abc import Callable

import pytest

FULL = os.environ.get("CTXKIT_CRASH_FULL", "") not in {"", "0"}


@pytest.fixture
def volume() -> Callable[..., int]:
    """Return what picks one of two amounts: `volume(short=60, full=1000)`."""

    def pick(*, short: int, full: int) -> int:
        return full if FULL else short

    return pick


@pytest.fixture
def is_full() -> bool:
    """Whether this is the full form, which must also have seen what the short one may miss by chance."""
    return FULL
