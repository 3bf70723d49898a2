"""What leaves for the summary, and what stays."""

from __future__ import annotations

from ctxkit.plan import Edit, EditKind
from ctxkit.strategies import CompressStrategy
from tests.unit.fakes import FakeMsg, agent, call, hint, situation, step, user


def named(edits: tuple[Edit, ...]) -> list[tuple[int, int, int, int]]:
    return [(edit.message, edit.start, edit.stop, edit.tokens) for edit in edits]


def planned(*messages: FakeMsg, keep: float = 0, reply_id: str = "") -> list[tuple[int, int, int, int]]:
    return named(CompressStrategy(keep_tokens=keep).plan_edits(situation(*messages, reply_id=reply_id)))


def test_what_is_older_than_the_budget_leaves_whole_messages_first_then_steps_of_a_message():
    running = agent(*step("a", "r" * 50), *step("b", "r" * 50))
    assert planned(user("u" * 10), agent("w" * 20), user("v" * 5), running) == [
        (0, 0, 1, 10),
        (1, 0, 1, 20),
        (3, 0, 3, 54),
    ]


def test_the_newest_user_request_stays_wherever_it_stands():
    assert planned(user("do"), agent(*step("a"), *step("b"))) == [(1, 0, 3, 8)]


def test_a_hint_alone_leaves_where_the_step_behind_it_stays():
    assert planned(user("do"), agent(hint("h" * 9), *step("a"))) == [(1, 0, 1, 9)]


def test_all_fits_the_budget_and_nothing_leaves():
    assert planned(user("old"), agent("ok"), user("do"), keep=1e9) == []


def test_nothing_leaves_where_the_newest_request_is_all_there_is():
    assert planned(user("do"), user("and do that")) == []


def test_an_unfinished_call_and_all_behind_it_stay_in_any_budget():
    assert planned(user("do"), agent(*step("a"), call("b"), reply_id="r"), reply_id="r") == [(1, 0, 3, 8)]


def test_an_empty_message_leaves_with_what_stands_round_it_but_is_no_reason_for_a_summary():
    assert planned(user("do"), agent(), agent("hello")) == []
    assert planned(agent("old"), agent(), user("do"), agent("hello")) == [(0, 0, 1, 3), (1, 0, 0, 0)]


def test_a_drop_names_the_same_blocks_as_a_compression():
    here = situation(user("old"), agent("ok"), user("do"))
    compress, drop = (
        CompressStrategy(keep_tokens=0, kind=kind).plan_edits(here) for kind in (EditKind.COMPRESS, EditKind.DROP)
    )
    assert named(compress) == named(drop)
    assert {edit.kind for edit in drop} == {EditKind.DROP}
