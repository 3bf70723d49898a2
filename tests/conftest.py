"""What all tests share: the header, a watch for calls that block the event loop, and how many examples are sought."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from hypothesis import is_hypothesis_test, settings

import ctxkit

OURS = str(Path(ctxkit.__file__).parent)
HOST = "/site-packages/agentscope/"
COVERAGE = "/site-packages/coverage/"
LONGEST_ID = 60
"""Bytes of a parameter that may stand in a test's name."""

SEARCH = int(os.environ.get("CTXKIT_EXAMPLES", "1"))
"""How many times its own number of generated examples each test tries: `nox -s search` sets it, and so may you."""

# A shared machine may take its time with one example. CI looks at the same examples each time, so that it is red for
# a change alone; new ones are sought where somebody looks at what is found.
settings.register_profile("ctxkit", deadline=None, derandomize=bool(os.environ.get("CI")) and SEARCH == 1)
settings.load_profile("ctxkit")


def pytest_report_header() -> str:
    try:
        version = metadata.version("agentscope")
    except metadata.PackageNotFoundError:
        version = "not installed"
    return f"agentscope: {version}; ctxkit from {OURS}; examples: x{SEARCH}"


def _is_the_hosts_doing() -> bool:
    """Return whether the blocking call is made by AgentScope, which our hooks call and are called by, or by coverage.

    Coverage takes a lock where a line of ours is the first to be run of its file, and another thread may hold it.
    """
    frame = sys._getframe(2)
    while frame is not None:
        filename = frame.f_code.co_filename
        if COVERAGE in filename.replace("\\", "/"):
            return True
        if filename.startswith(OURS):
            return False
        if HOST in filename.replace("\\", "/"):
            return True
        frame = frame.f_back
    return True


def _unless_the_hosts(can_block: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *args, **kwargs: can_block(*args, **kwargs) or _is_the_hosts_doing()


@pytest.fixture(autouse=True)
def blocking_calls_fail(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which ctxkit blocks the event loop by files, sleeps, locks, sockets or sqlite."""
    if request.node.get_closest_marker("may_block"):
        yield
        return
    watch = BlockBuster("ctxkit")
    for function in watch.functions.values():
        function.can_block_predicate = _unless_the_hosts(function.can_block_predicate)
    watch.activate()
    try:
        yield
    finally:
        watch.deactivate()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long parameter by its length and hash; the rest is pytest's own way."""
    text = val.encode("utf-8", "backslashreplace") if isinstance(val, str) else val
    if isinstance(text, bytes) and len(text) > LONGEST_ID:
        return f"{argname}-{len(text)}-{blake2b(text, digest_size=3).hexdigest()}"
    return None


def _seek_more(items: list[pytest.Item]) -> None:
    """Multiply the examples of the generated tests; no public way leads to what a test's own decorator has set."""
    functions = {
        getattr(item.function, "__func__", item.function) for item in items if isinstance(item, pytest.Function)
    }
    for function in functions:
        if is_hypothesis_test(function):
            own = function._hypothesis_internal_use_settings
            function._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * SEARCH)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Seek as many examples as are asked for, and refuse a `row` marker that names no row."""
    if SEARCH > 1:
        _seek_more(items)
    for item in items:
        for marker in item.iter_markers("row"):
            if not marker.args or not all(isinstance(row, str) and row[:1] in "ACODX" for row in marker.args):
                msg = f'{item.nodeid}: row marker {marker.args!r} names no row; write row("A4").'
                raise pytest.UsageError(msg)
