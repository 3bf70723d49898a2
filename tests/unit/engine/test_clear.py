"""What is left when a context is cleared."""

from __future__ import annotations

from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import plan_clear
from tests.unit.fakes import FakeCodec, FakeMsg, agent, call, situation, step, text, thinking, user

CODEC = FakeCodec()


def cleared(*messages: FakeMsg, reply_id: str = "", context_size: int = 1000) -> list[FakeMsg]:
    seen = situation(*messages, reply_id=reply_id, context_size=context_size)
    return apply_edits(seen.view, plan_clear(seen), {}, CODEC)


def test_only_the_newest_request_is_left():
    newest = user("And now?")
    assert cleared(user("First?"), agent(*step("a"), "yes"), newest) == [newest]


def test_the_running_replys_message_stays_and_is_empty():
    request, reply = user("Go on."), agent(*step("a"), *step("b"), reply_id="r1")
    [first, last] = cleared(user("First?"), agent("yes"), request, reply, reply_id="r1")
    assert first is request
    assert (last.id, last.content) == ("r1", [])
    assert len(reply.content) == 6


def test_calls_whose_result_is_still_to_come_stay_with_their_reasoning_step():
    waiting = [thinking(), text("I shall ask."), call("c")]
    reply = agent(*step("a"), *step("b"), *waiting, reply_id="r1")
    [_, last] = cleared(user("Go on."), reply, reply_id="r1")
    assert last.content == waiting


def test_everything_that_goes_is_taken_away_to_be_stored():
    messages = [user("First?"), agent(*step("a"), "yes"), user("Go on."), agent(*step("b"), reply_id="r1")]
    seen = situation(*messages, reply_id="r1")
    gone = taken_away(seen.view, plan_clear(seen), CODEC)
    assert [message.content for message in gone] == [messages[0].content, messages[1].content, messages[3].content]


def test_a_request_over_its_budget_is_cut_to_it():
    seen = situation(user("x" * 900), context_size=1000)
    [edit] = plan_clear(seen)
    assert (edit.kind, edit.keep_tokens) == ("truncate", 250)
