"""The ledger over generated runs of tools: the same log gives the same bytes, and saving loses nothing that it shows."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ctxkit.ledger import Ledger, facts_of
from tests.unit.fakes import FakeResult, call

PATHS = st.sampled_from(["a.py", "src/b.py", "/repo/src/b.py", "/tmp/c.txt"])
COMMANDS = st.one_of(
    st.sampled_from(["make", "make lib", "pytest tests/a.py", "rm -r src", "cat > a.py <<'EOF'\nx\nEOF\npython a.py"]),
    st.text(max_size=60),
)
OUTPUTS = st.sampled_from(["fine", "exit code 1\nKeyError: k", "FAILED tests/a.py::test_x", "3 passed", "Error: no"])
STEPS = st.tuples(st.sampled_from(["Read", "Write", "Edit", "Bash", "other"]), PATHS, COMMANDS, OUTPUTS, st.booleans())


def facts(steps):
    for number, (tool, path, command, output, fails) in enumerate(steps):
        arguments = {"command": command} if tool == "Bash" else {"path": path}
        yield facts_of(call(f"c{number}", name=tool, **arguments))
        yield facts_of(FakeResult(id=f"c{number}", name=tool, output=output, state="error" if fails else "success"))


@given(st.lists(STEPS, max_size=25))
def test_the_same_log_gives_the_same_bytes(steps):
    assert json.dumps(Ledger().add(*facts(steps)).to_json()) == json.dumps(Ledger().add(*facts(steps)).to_json())


@given(st.lists(STEPS, max_size=25), st.integers(2_000, 28_000))
def test_saving_what_was_loaded_changes_nothing(steps, limit):
    saved = Ledger().add(*facts(steps)).to_json(limit)
    loaded = Ledger.from_json(json.loads(json.dumps(saved)))
    assert loaded.to_json(limit) == saved
    assert loaded.add() == loaded


@given(st.lists(STEPS, max_size=25))
def test_an_error_is_open_or_resolved_after_it_happened(steps):
    ledger = Ledger().add(*facts(steps))
    for failure in ledger.failures.values():
        assert 0 < failure.step <= ledger.step
        assert failure.is_open or failure.resolved > failure.step
    assert {path for path, touch in ledger.touches.items() if touch.step > ledger.step} == set()
    assert set(ledger.touches) <= set(ledger.files)
