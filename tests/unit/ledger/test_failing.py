"""Which errors count as open."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.ledger import Ledger, open_errors
from ctxkit.summary.verify import facts_to_keep
from tests.unit.fakes import FakeBlock, agent, call, result


def ran(call_id: str, command: str, *, fails: bool) -> list[FakeBlock]:
    output = result(call_id, "E: broken\nexit code 1" if fails else "fine", name="Bash")
    return [call(call_id, name="Bash", command=command), replace(output, state="error" if fails else "success")]


def used(call_id: str, tool: str, path: str, *, fails: bool) -> list[FakeBlock]:
    output = result(call_id, "no such place" if fails else "fine", name=tool)
    return [call(call_id, name=tool, path=path), replace(output, state="error" if fails else "success")]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("failing", "later", "is_open"),
    [
        ("pytest tests", "pytest tests -x -q", False),
        ("pytest tests/unit/test_a.py::test_x", "python -m pytest tests/unit", False),
        ("pytest tests", "ls src", True),
        ("pytest tests", "pytest tests/unit", True),
        ("cd /repo && make lib 2>&1 | tail -3", "make lib", False),
        ("npm test", "npm run build", True),
        ("python -c 'import a.b.c'", "python - <<'EOF'\nimport a\nEOF", False),
        ("cat missing.txt", "touch missing.txt", False),
    ],
)
async def test_an_error_of_a_command_is_open_until_the_same_goes_well(failing, later, is_open):
    blocks = [*ran("a", failing, fails=True), *ran("b", later, fails=False)]
    assert await open_errors([agent(*blocks)]) == ({"a"} if is_open else set())
    assert bool((await Ledger().read([agent(*blocks)])).open_failures) is is_open


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("later", "path", "is_open"),
    [("Edit", "a.py", False), ("Write", "a.py", False), ("Read", "a.py", True), ("Edit", "b.py", True)],
)
async def test_an_edit_that_failed_is_open_until_the_file_is_changed(later, path, is_open):
    blocks = [*used("a", "Edit", "a.py", fails=True), *used("b", later, path, fails=False)]
    assert await open_errors([agent(*blocks)]) == ({"a"} if is_open else set())


@pytest.mark.asyncio
async def test_of_errors_of_the_same_work_the_newest_is_open():
    both = agent(*ran("a", "make all", fails=True), *ran("b", "make all", fails=True))
    assert await open_errors([both]) == {"b"}


@pytest.mark.asyncio
async def test_a_search_that_finds_nothing_is_no_error():
    assert await open_errors([agent(*ran("a", "grep -rn nothing src", fails=True))]) == set()


@pytest.mark.asyncio
async def test_an_exit_in_a_file_that_was_read_is_no_error():
    blocks = [call("a", name="Read", path="run.sh"), result("a", "set -e\nexit 1", name="Read")]
    assert await open_errors([agent(*blocks)]) == set()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("line", "output", "is_open"),
    [
        ("pytest tests | tail -5", "ModuleNotFoundError: No module named 'x'\nexit code 0", True),
        ("set -o pipefail; pytest tests | tail -5", "ResourceWarning: unclosed\nexit code 0", False),
        ("pytest tests | tail -5", "30 passed\nexit code 0", False),
        ("pytest tests", "ResourceWarning: unclosed\nexit code 0", False),
    ],
)
async def test_the_exit_code_of_a_pipe_settles_nothing_where_errors_are_shown(line, output, is_open):
    again = [call("b", name="Bash", command=line), result("b", output, name="Bash")]
    messages = [agent(*ran("a", "pytest tests", fails=True), *again)]
    assert await open_errors(messages) == ({"a"} if is_open else set())
    ledger = await Ledger().read(messages)
    assert bool(ledger.open_failures) is is_open
    assert (ledger.commands[-1].outcome == "ok") is not is_open


@pytest.mark.asyncio
async def test_where_nothing_failed_nothing_is_open():
    assert await open_errors([agent(*ran("a", "ls src", fails=False))]) == set()


_LINES = st.sampled_from(
    ["pytest tests", "pytest tests/a.py", "make all", "grep -rn x src", "cat a.py", "cd /srv && pytest tests"]
)
_FILES = st.tuples(st.sampled_from(["Edit", "Write", "Read"]), st.sampled_from(["a.py", "src/b.py"]))


@given(st.lists(st.tuples(_LINES | _FILES, st.booleans()), max_size=12))
def test_what_a_summary_calls_not_resolved_is_what_strategies_leave_in_place(done):
    blocks = [
        ran(f"c{n}", what, fails=fails) if isinstance(what, str) else used(f"c{n}", *what, fails=fails)
        for n, (what, fails) in enumerate(done)
    ]
    messages = [agent(*both) for both in blocks]

    async def check() -> None:
        ledger = await Ledger().read(messages)
        left = await open_errors(messages)
        assert {failure.call_id for failure in ledger.open_failures} == left
        told = [fact.text for fact in facts_to_keep(messages, ledger) if fact.kind == "error"]
        newest = [failure.what for failure in ledger.open_failures[::-1]]
        assert [text.partition(": ")[2].partition(" -> ")[0] for text in told] == newest[: len(told)]
        assert bool(told) is bool(left)

    asyncio.run(check())
