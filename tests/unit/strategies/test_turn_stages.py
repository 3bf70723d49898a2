"""The stages that go by turns, and what is cut of turns that are over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxkit.config import HistoryConfig
from ctxkit.plan import EditKind
from ctxkit.strategies import OldResultsStrategy, Situation, TurnStages
from tests.unit.fakes import FakeMsg, agent, result, situation, step, user


def turns(number: int) -> list[FakeMsg]:
    return [
        message for n in range(number) for message in (user(f"ask {n}"), agent("hm", *step(f"c{n}"), f"answer {n}"))
    ]


def here_of(*messages: FakeMsg, tokens: int = 0, **known: object) -> Situation:
    """Return a situation in which each block weighs 10 tokens and the whole request so many."""
    here = situation(*messages)
    rows = [[10.0] * len(row) for row in here.tokens]
    return replace(here, tokens=rows, request_tokens=tokens, **known)


def dropped(stages: TurnStages, here: Situation) -> dict[str, set[int]]:
    """Return the messages that each rule takes from."""
    edits = stages.plan_edits(here)
    assert {edit.kind for edit in edits} <= {EditKind.DROP}
    return {rule: {e.message for e in edits if e.rule == rule} for rule in {e.rule for e in edits}}


@pytest.mark.parametrize(("complete", "gone"), [(1, 0), (2, 1), (5, 2), (21, 10)])
def test_where_there_are_too_many_the_older_half_of_the_complete_turns_leaves(complete: int, gone: int):
    here = here_of(*turns(complete), user("now"), agent("so"), tokens=100)
    assert dropped(TurnStages(most_tokens=100, texts_below=5, halve=True), here) == (
        {"drop_turns": set(range(2 * gone))} if gone else {}
    )


def test_nothing_is_done_within_the_budget():
    here = here_of(*turns(30), user("now"), tokens=100)
    assert TurnStages(most_tokens=100, texts_below=5).plan_edits(here) == ()


def test_over_the_budget_few_turns_keep_their_texts_and_many_lose_their_older_half():
    few, many = here_of(*turns(4), user("now"), tokens=200), here_of(*turns(5), user("now"), tokens=200)
    stages = TurnStages(most_tokens=199, texts_below=5)
    assert dropped(stages, few) == {"turn_texts": {1, 3, 5, 7}}
    assert dropped(stages, many) == {"drop_turns": {0, 1, 2, 3}}


def test_the_stages_follow_one_another_until_the_budget_is_kept():
    # Each turn weighs 60: 12 turns are 720, 6 are 360, 3 are 180 and their texts 60.
    stages = TurnStages(most_tokens=100, texts_below=5)
    gone = dropped(stages, here_of(*turns(12), user("now"), tokens=720))
    assert gone == {"drop_turns": set(range(18)), "turn_texts": {19, 21, 23}}


def test_a_limit_below_which_no_half_is_left_ends():
    here = here_of(*turns(1), user("now"), tokens=500)
    assert TurnStages(most_tokens=1, texts_below=1).plan_edits(here) == ()


def test_the_running_turn_and_pinned_messages_stay():
    here = here_of(*turns(3), user("now"), agent("hm", *step("x")), tokens=900, pinned=frozenset({0}))
    stages = TurnStages(most_tokens=1, texts_below=5, halve=True)
    assert all(edit.message not in {0, 6, 7} for edit in stages.plan_edits(here))


def test_results_of_earlier_turns_are_cut_by_characters_and_those_of_the_running_turn_are_not():
    settings = replace(situation().settings, history=HistoryConfig(old_result_chars=100))
    messages = (
        user("a"),
        agent(*step("fits", "x" * 100), *step("long", "x" * 101)),
        user("b"),
        agent(*step("pinned", "x" * 999)),
        user("now"),
        agent(*step("running", "x" * 999)),
    )
    here = replace(situation(*messages), settings=settings, pinned=frozenset({3}))
    [edit] = OldResultsStrategy().plan_edits(here)
    assert (edit.kind, edit.message, edit.start, edit.keep_chars) == (EditKind.TRUNCATE, 1, 5, 100)
    assert OldResultsStrategy().plan_edits(situation(*messages)) == ()


def test_a_result_that_the_running_reply_still_appends_to_is_no_earlier_one():
    settings = replace(situation().settings, history=HistoryConfig(old_result_chars=100))
    messages = (user("a"), agent(*step("x", "x" * 200), reply_id="r"), user("b"), agent(result("y")))
    assert OldResultsStrategy().plan_edits(replace(situation(*messages, reply_id="r"), settings=settings)) == ()
