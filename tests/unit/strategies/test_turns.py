"""Which turns leave, and what stays of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ctxkit.plan import Edit, EditKind
from ctxkit.strategies import DropTurnsStrategy, Strategy, TurnTextsStrategy
from tests.unit.fakes import FakeMsg, agent, call, image, result, situation, step, text, thinking, user


def planned(strategy: Strategy, *messages: FakeMsg, reply_id: str = "", **known: object) -> tuple[Edit, ...]:
    return strategy.plan_edits(replace(situation(*messages, reply_id=reply_id), **known))


def runs(edits: Sequence[Edit]) -> list[tuple[int, int, int]]:
    assert {edit.kind for edit in edits} <= {EditKind.DROP}
    return [(edit.message, edit.start, edit.stop) for edit in edits]


def turns(number: int) -> list[FakeMsg]:
    return [message for n in range(number) for message in (user(f"ask {n}"), agent(*step(f"c{n}"), f"answer {n}"))]


def test_the_oldest_half_of_the_finished_turns_leaves_rounded_down():
    assert runs(planned(DropTurnsStrategy(), *turns(3), user("now"))) == [(0, 0, 1), (1, 0, 4)]
    assert runs(planned(DropTurnsStrategy(), *turns(4), user("now")))[-1] == (3, 0, 4)
    assert planned(DropTurnsStrategy(), *turns(1), user("now")) == ()


def test_the_turn_of_the_newest_request_is_not_finished_even_where_it_was_answered():
    assert planned(DropTurnsStrategy(), *turns(2)) == ()
    assert planned(TurnTextsStrategy(), *turns(1)) == ()
    assert planned(DropTurnsStrategy(), agent("a"), agent("b")) == ()


def test_what_stands_before_the_first_user_message_is_a_turn():
    assert runs(planned(DropTurnsStrategy(), agent("hello"), *turns(1), user("now"))) == [(0, 0, 1)]


def test_several_messages_of_users_in_a_row_begin_one_turn():
    messages = (user("a"), user("b", name="bob"), agent("so"), user("c"), agent("so"), user("now"))
    assert runs(planned(DropTurnsStrategy(), *messages)) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]


def test_pinned_messages_stay_with_what_belongs_to_them():
    messages = (user("a"), agent(call("x")), agent(result("x")), agent("so"), user("b"), agent("so"), user("now"))
    assert runs(planned(DropTurnsStrategy(), *messages, pinned=frozenset({2}))) == [(0, 0, 1), (3, 0, 1)]


def test_a_call_whose_result_stands_in_a_turn_that_stays_stays():
    messages = (user("a"), agent("so", call("x")), user("b"), agent(result("x"), "so"), user("now"))
    assert runs(planned(DropTurnsStrategy(), *messages)) == [(0, 0, 1), (1, 0, 1)]


def test_open_errors_and_a_reply_that_is_parked_stay():
    failed = (user("a"), agent(*step("x")), user("b"), agent("so"), user("now"))
    assert runs(planned(DropTurnsStrategy(), *failed, open_errors=frozenset({"x"}))) == [(0, 0, 1), (1, 0, 1)]
    parked = (user("a"), agent("so", call("x"), reply_id="r"), user("b"), agent("so"), user("now"))
    assert runs(planned(DropTurnsStrategy(), *parked, reply_id="r")) == [(0, 0, 1)]


def test_each_finished_turn_keeps_its_first_user_text_and_its_last_reply():
    messages = (
        user("ask", "more", image()),
        user("and this"),
        agent("let me see", *step("x"), thinking(), text("it is"), text("so")),
        user("now"),
        agent(*step("y")),
    )
    assert runs(planned(TurnTextsStrategy(), *messages)) == [(0, 1, 3), (1, 0, 1), (2, 0, 5)]


def test_what_is_reduced_to_its_texts_is_not_reduced_again():
    assert planned(TurnTextsStrategy(), user("a"), agent("so"), user("b"), agent("and so"), user("now")) == ()


def test_of_a_turn_without_a_reply_the_user_text_stays_alone():
    assert runs(planned(TurnTextsStrategy(), user("a"), agent(*step("x")), user("b"))) == [(1, 0, 3)]


def test_a_turn_without_a_reply_stays_apart_from_the_next_one_so_that_either_keeps_its_user_text():
    messages = (user("a"), agent(*step("x"), *step("y")), user("b"), agent("so"), user("now"))
    assert runs(planned(TurnTextsStrategy(), *messages)) == [(1, 0, 4)]
