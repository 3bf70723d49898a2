from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.ledger import Command, Ledger, facts_of
from tests.unit.fakes import FakeResult, agent, call, result, text, user


def folded(*blocks, role="assistant"):
    return Ledger().add(*(facts_of(block, role=role) for block in blocks))


def test_a_file_counts_when_its_result_is_in():
    ledger = folded(call("1", "Read", path="a.py"))
    assert ledger.files == {}
    assert ledger.add(facts_of(result("1"))).files == {}
    assert folded(call("1", "Read", path="a.py"), result("1")).files == {"a.py": "read"}


def test_a_call_that_failed_touched_no_file():
    assert folded(call("1", "Write", path="a.py"), FakeResult(id="1", state="error", output="denied")).files == {}


@pytest.mark.parametrize(
    ("tools", "operation"),
    [
        (["Write", "Read"], "created"),
        (["Read", "Write"], "modified"),
        (["Write", "Edit"], "created"),
        (["Read", "Edit", "Read"], "modified"),
        (["Edit", "delete_file"], "deleted"),
    ],
)
def test_what_became_of_a_file_is_remembered(tools, operation):
    blocks = [b for n, tool in enumerate(tools) for b in (call(str(n), tool, path="a.py"), result(str(n)))]
    assert folded(*blocks).files == {"a.py": operation}


def test_a_command_keeps_its_outcome():
    ledger = folded(
        call("1", "Bash", command="pytest -q"),
        result("1", "AssertionError: x\nexit code 1"),
        call("2", "Bash", command="ls -l"),
        result("2", "fine"),
        call("3", "Bash", command="sleep 9"),
    )
    assert ledger.commands == (
        Command("pytest -q", "exit 1: AssertionError: x", 1),
        Command("ls -l", "ok"),
        Command("sleep 9", ""),
    )


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ("E   AssertionError: expected 200, got 503", "shows E AssertionError: expected 200, got 503"),
        ("E   AssertionError: expected 200, got 503\nexit code: 0", "ok"),
        ("E   AssertionError: expected 200, got 503\nexit code: 1", "exit 1: E AssertionError: expected 200, got 503"),
        ("3 passed", "ok"),
        ("KeyError: " + "x" * 500, "shows KeyError: " + "x" * 143 + "…"),
    ],
)
def test_a_command_whose_result_shows_errors_and_no_exit_code_is_never_called_ok(output, outcome):
    ledger = folded(call("1", "Bash", command="pytest tests/api"), result("1", output))
    assert [(command.text, command.outcome) for command in ledger.commands] == [("pytest tests/api", outcome)]


def test_a_file_that_was_read_counts_as_read_although_errors_stand_in_it():
    ledger = folded(call("1", "Bash", command="cat build.log"), result("1", "KeyError: x"))
    assert ledger.files == {"build.log": "read"}


def test_the_same_facts_give_the_same_ledger():
    blocks = [result(str(n), f"item_{n % 7} 55{n:03d}\nKeyError: k{n}") for n in range(30)]
    assert folded(*blocks) == folded(*blocks)


def test_what_the_assistant_used_ranks_before_what_it_only_saw():
    ledger = folded(result("1", "alpha_name beta_name"), text("beta_name"))
    assert ledger.ranked()[0] == "beta_name"


def test_newer_ranks_before_older():
    ledger = folded(result("1", "alpha_name"), *(result(str(n), "x") for n in range(9)), result("2", "gamma_name"))
    assert ledger.ranked() == ["gamma_name", "alpha_name"]


def test_what_stands_nearly_everywhere_is_boilerplate():
    ledger = folded(*(result(str(n), f"common_word only_{n}") for n in range(20)))
    assert "common_word" not in ledger.ranked()


def test_two_ledgers_merge_to_what_one_would_have_seen():
    first, second = [result("1", "a_one 445566")], [text("a_one"), result("2", "b_two\nTypeError: t")]
    assert folded(*first).merge(folded(*second)) == folded(*first, *second)


def test_a_ledger_is_a_value():
    ledger = folded(result("1", "a_one"))
    before = ledger.to_json()
    ledger.add(facts_of(result("2", "b_two")))
    assert ledger.to_json() == before


def test_constraints_survive_many_compressions():
    ledger = folded(text("Never touch prod."), role="user")
    for n in range(20):
        ledger = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
        ledger = ledger.add(*(facts_of(result(f"{n}-{k}", f"noise_{n}_{k} 77{n:02d}{k:02d}")) for k in range(50)))
    assert ledger.constraints == ("Never touch prod.",)


def test_where_not_all_constraints_fit_those_that_leave_no_choice_are_saved():
    wishes = tuple(f"The part number {n} should be looked at with some care." for n in range(60))
    ledger = Ledger(constraints=("Never touch prod.", *wishes))
    saved = Ledger.from_json(ledger.to_json(8000)).constraints
    assert saved == ("Never touch prod.", *wishes[-len(saved) + 1 :])
    assert 1 < len(saved) < 61


def test_a_ledger_survives_a_round_trip_through_json():
    ledger = folded(
        result("0", "confirmation 998877 for ada_l"),
        call("1", "Bash", command="rm b.txt"),
        result("1", "error: E1\nexit code 0"),
    ).add(facts_of(text("Always test."), role="user"))
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))) == ledger


@pytest.mark.parametrize(
    "junk",
    [
        None,
        [],
        "text",
        {},
        {"version": 99},
        {"version": 1, "identifiers": 3, "files": [], "commands": [["a"], 7], "errors": [1], "constraints": {}},
        {"version": 1, "step": "x", "identifiers": [["a", "b"], ["n_a", 1, 1, 1, 99]], "lines": None},
    ],
)
def test_junk_gives_a_ledger_all_the_same(junk):
    assert isinstance(Ledger.from_json(junk), Ledger)


@given(st.lists(st.text(max_size=300), max_size=20), st.integers(500, 5000))
def test_the_json_stays_within_its_bound(texts, limit):
    ledger = folded(*(result(str(n), t) for n, t in enumerate(texts))).add(
        *(facts_of(text(t), role="user") for t in texts)
    )
    size = len(json.dumps(ledger.to_json(limit), ensure_ascii=False).encode("utf-8", "replace"))
    assert size <= limit + 400


@pytest.mark.asyncio
async def test_reading_messages_lets_others_run():
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    ledger = await Ledger().read([agent(result(str(n), f"name_{n} " + "w " * 600)) for n in range(500)])
    task.cancel()
    assert ledger.step == 500
    assert turns >= 10


@pytest.mark.asyncio
async def test_roles_tell_who_said_it():
    ledger = await Ledger().read([user("Only use tabs."), agent("I must always use tabs.")])
    assert ledger.constraints == ("Only use tabs.",)
