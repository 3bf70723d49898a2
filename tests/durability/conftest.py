"""How much is tried: a short form by default, the full one where the environment has CTXKIT_CRASH_FULL=1 (`nox -s crash`)."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

FULL: Final = os.environ.get("CTXKIT_CRASH_FULL", "") not in {"", "0"}
_FIGURES: Final = pytest.StashKey[list[str]]()


@pytest.fixture
def volume() -> Callable[..., int]:
    """Return what picks one of two amounts: `volume(short=60, full=1000)`."""

    def pick(*, short: int, full: int) -> int:
        return full if FULL else short

    return pick


@pytest.fixture
def figures(request) -> Callable[[str], None]:
    """Return what takes a line for the end of the report: how much was tried, and what came of it."""
    return request.config.stash.setdefault(_FIGURES, []).append


def pytest_terminal_summary(terminalreporter, config) -> None:
    lines = config.stash.get(_FIGURES, [])
    if lines:
        terminalreporter.section("durability, the full form" if FULL else "durability, the short form")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def quick(tmp_path) -> Iterator[Path]:
    """A directory in memory, where that can be had: for what is not about power cuts."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else tmp_path) as found:
        yield Path(found)
