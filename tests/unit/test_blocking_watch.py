"""The watch of `tests/conftest.py` sees blocking calls that ctxkit makes, and only those."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

import ctxkit

PACKAGE = Path(ctxkit.__file__).parent
SITE = Path("/somewhere/site-packages/agentscope")


def function_in(filename, source, **names):
    """Return the function `f` of a module that seems to stand in `filename`."""
    exec(compile(source, str(filename), "exec"), names)
    return names["f"]


@pytest.mark.asyncio
async def test_a_blocking_call_of_ctxkit_fails():
    sleep = function_in(PACKAGE / "x.py", "def f(): sleep(0)", sleep=time.sleep)
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        sleep()


@pytest.mark.asyncio
async def test_a_blocking_call_of_the_host_under_a_hook_of_ctxkit_passes():
    host = function_in(SITE / "x.py", "def f(): sleep(0)", sleep=time.sleep)
    function_in(PACKAGE / "x.py", "def f(): host()", host=host)()


@pytest.mark.asyncio
async def test_a_blocking_call_of_ctxkit_under_the_host_fails():
    ours = function_in(PACKAGE / "x.py", "def f(): sleep(0)", sleep=time.sleep)
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        function_in(SITE / "x.py", "def f(): ours()", ours=ours)()


@pytest.mark.asyncio
async def test_the_lock_that_coverage_takes_at_a_line_of_ctxkit_passes():
    coverage = function_in(SITE.parent / "coverage/collector.py", "def f(): sleep(0)", sleep=time.sleep)
    function_in(PACKAGE / "x.py", "def f(): coverage()", coverage=coverage)()


@pytest.mark.asyncio
@pytest.mark.may_block("shows that the marker works")
async def test_a_marked_test_is_not_watched():
    function_in(PACKAGE / "x.py", "def f(): sleep(0)", sleep=time.sleep)()


def test_outside_an_event_loop_anything_may_block():
    function_in(PACKAGE / "x.py", "def f(): sleep(0)", sleep=time.sleep)()
