"""Which errors count as open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxkit.engine.open_errors import open_errors
from ctxkit.view import View
from tests.unit.fakes import FakeBlock, agent, call, result


def ran(call_id: str, command: str, *, fails: bool) -> list[FakeBlock]:
    output = result(call_id, "exit code 1\nE: broken" if fails else "fine", name="Bash")
    return [call(call_id, name="Bash", command=command), replace(output, state="error" if fails else "success")]


@pytest.mark.asyncio
async def test_an_error_is_open_until_the_same_program_works():
    first = agent(*ran("a", "pytest tests", fails=True), *ran("b", "ls src", fails=False))
    assert await open_errors(View([first])) == {"a"}
    assert await open_errors(View([first, agent(*ran("c", "pytest tests/unit", fails=False))])) == set()


@pytest.mark.asyncio
async def test_of_errors_of_one_program_the_newest_is_open():
    both = agent(*ran("a", "make all", fails=True), *ran("b", "make lib", fails=True))
    assert await open_errors(View([both])) == {"b"}


@pytest.mark.asyncio
async def test_where_nothing_failed_nothing_is_open():
    assert await open_errors(View([agent(*ran("a", "ls src", fails=False))])) == set()
