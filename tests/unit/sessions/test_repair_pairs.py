"""The five defects of pairs, each in one message and across messages; ids; empty messages."""

from __future__ import annotations

import pytest

from ctxkit.sessions.repair import MISSING_RESULT, repair_context
from tests.unit.fakes import FakeCall, FakeCodec, FakeMsg, agent, call, hint, result, step, text, thinking, user

pytestmark = pytest.mark.row("O15")


def repaired(*messages, **settings):
    settings = {"agent_name": "agent", "reply_id": "reply", **settings}
    return repair_context(messages, codec=FakeCodec(), **settings)


def shape(messages) -> list[list[str]]:
    """Return the blocks of each message as type:id, or type:text."""
    return [[_shape(block) for block in message.content] for message in messages]


def _shape(block) -> str:
    kind = block.type.removeprefix("tool_")
    said = {"text": "text", "thinking": "thinking", "hint": "hint"}.get(block.type)
    lost = "!" if kind == "result" and block.output == MISSING_RESULT else ""
    return f"{kind}:{getattr(block, said) if said else block.id}{lost}"


def kinds(outcome) -> list[str]:
    return [repair.kind for repair in outcome.repairs]


def asking(call_id: str, state: str = "asking") -> FakeCall:
    return FakeCall(id=call_id, state=state)


def test_a_context_without_defects_comes_back_as_the_very_same_messages():
    messages = [
        user("do"),
        agent(*step("a"), thinking(), call("b"), call("c"), result("c"), result("b"), hint(), *step("a"), "done"),
        user("more"),
        agent(*step("a"), "done"),
    ]

    outcome = repaired(*messages)

    assert outcome.repairs == ()
    assert outcome.dropped == ()
    assert all(after is before for after, before in zip(outcome.messages, messages, strict=True))


# A missing result


def test_a_missing_result_becomes_an_error_right_behind_its_call():
    outcome = repaired(user("do"), agent("I look", call("a", "search"), "found it"), user("and?"))

    assert shape(outcome.messages)[1] == ["text:I look", "call:a", "result:a!", "text:found it"]
    error = outcome.messages[1].content[2]
    assert (error.name, error.state) == ("search", "error")
    assert error.output.startswith("[ctxkit] missing tool result")
    assert kinds(outcome) == ["missing_result"]
    assert outcome.dropped == []


def test_missing_results_of_parallel_calls_stand_behind_all_of_them():
    outcome = repaired(agent(thinking(), call("a"), call("b"), call("c"), result("b")), user("and?"))

    assert shape(outcome.messages)[0] == [
        *("thinking:hm", "call:a", "call:b", "call:c"),
        *("result:b", "result:a!", "result:c!"),
    ]


def test_a_call_that_an_earlier_reply_left_gets_its_error_though_a_later_reply_uses_its_id_again():
    outcome = repaired(agent(call("0")), user("again"), agent(call("0"), result("0", "ok")), user("so?"))

    assert shape(outcome.messages) == [["call:0", "result:0!"], ["text:again"], ["call:0", "result:0"], ["text:so?"]]


def test_a_call_that_was_about_to_run_when_the_process_died_gets_its_error_and_is_finished():
    outcome = repaired(user("do"), agent(asking("a", "allowed"), reply_id="reply"))

    assert shape(outcome.messages)[1] == ["call:a", "result:a!"]
    assert outcome.messages[1].content[0].state == "finished"


# An orphan, and a second result


@pytest.mark.parametrize("messages", [[agent(result("a"), "so")], [agent("so"), user("x"), agent(result("a"), "so")]])
def test_an_orphan_result_is_dropped_and_handed_out(messages):
    outcome = repaired(user("do"), *messages)

    assert not any(block.type == "tool_result" for message in outcome.messages for block in message.content)
    assert kinds(outcome) == ["orphan_result"]
    assert shape(outcome.dropped) == [["result:a"]]
    assert outcome.dropped[0].id == messages[-1].id


def test_the_first_of_two_results_is_kept():
    outcome = repaired(
        agent(call("a"), result("a", "first"), result("a", "second")), user("x"), agent(result("a"), "y")
    )

    assert [block.output for block in outcome.messages[0].content[1:]] == ["first"]
    assert shape(outcome.messages)[2] == ["text:y"]
    assert kinds(outcome) == ["duplicate_result", "duplicate_result"]


def test_a_result_of_another_tool_does_not_answer_a_call():
    outcome = repaired(agent(call("0", "search")), user("x"), agent(result("0", name="write"), "y"))

    assert shape(outcome.messages) == [["call:0", "result:0!"], ["text:x"], ["text:y"]]
    assert sorted(kinds(outcome)) == ["missing_result", "orphan_result"]


# A misplaced result


def test_a_result_in_another_message_moves_to_its_call():
    outcome = repaired(agent(call("a"), call("b")), agent(result("b")), user("x"), agent(result("a"), "y"))

    assert shape(outcome.messages) == [["call:a", "call:b", "result:a", "result:b"], ["text:x"], ["text:y"]]
    assert kinds(outcome) == ["misplaced_result", "empty_message", "misplaced_result"]
    assert shape(outcome.dropped) == [[]]


@pytest.mark.parametrize(
    "between", [[hint("psst")], [call("b"), result("b")], [text("so"), call("b"), result("b"), thinking()]]
)
def test_a_result_that_something_parts_from_its_call_moves_to_it(between):
    outcome = repaired(agent(call("a"), *between, result("a", "mine"), "so"))

    ids = shape(outcome.messages)[0]
    assert set(ids) >= {"call:a", "result:a"}
    assert repaired(*outcome.messages).repairs == ()
    assert "mine" in [block.output for block in outcome.messages[0].content if block.type == "tool_result"]


def test_a_result_before_its_call_moves_behind_it():
    outcome = repaired(user("do"), agent(result("a"), call("a"), "so"))

    assert shape(outcome.messages)[1] == ["call:a", "result:a", "text:so"]
    assert kinds(outcome) == ["misplaced_result"]


def test_a_result_of_an_earlier_request_answers_no_call_of_a_later_one():
    outcome = repaired(agent(result("0"), "so"), user("x"), agent(call("0"), "y"))

    assert shape(outcome.messages) == [["text:so"], ["text:x"], ["call:0", "result:0!", "text:y"]]


# An incomplete call


@pytest.mark.parametrize(
    "broken",
    [
        FakeCall(id="", name="search"),
        FakeCall(id="a", name=""),
        FakeCall(id="a", input=None),
        FakeCall(id="a", input="  "),
    ],
    ids=["no id", "no name", "no input", "blank input"],
)
def test_an_incomplete_call_is_dropped_and_handed_out(broken):
    outcome = repaired(user("do"), agent("I look", broken), user("and?"))

    assert shape(outcome.messages)[1] == ["text:I look"]
    assert kinds(outcome) == ["incomplete_call"]
    assert outcome.dropped[0].content == [broken]


def test_the_result_of_an_incomplete_call_goes_with_it_and_answers_no_other():
    outcome = repaired(agent(call("a")), user("x"), agent(FakeCall(id="a", name=""), result("a"), "so"))

    assert shape(outcome.messages) == [["call:a", "result:a!"], ["text:x"], ["text:so"]]


def test_a_call_without_arguments_that_was_run_is_complete():
    assert repaired(agent(FakeCall(id="a", input=""), result("a"), "so")).repairs == ()


def test_a_call_whose_arguments_are_cut_off_is_kept_for_the_provider_wrote_it():
    outcome = repaired(agent(FakeCall(id="a", input='{"path": "/et')), user("x"))

    assert shape(outcome.messages)[0] == ["call:a", "result:a!"]
    assert outcome.messages[0].content[0].input == '{"path": "/et'


# Calls that wait


@pytest.mark.parametrize("state", ["asking", "submitted"])
def test_calls_that_wait_for_a_person_are_left_alone_and_so_are_those_that_wait_with_them(state):
    messages = [user("do"), agent(*step("a"), asking("b", state), asking("c", "pending"), asking("d", "allowed"))]

    outcome = repaired(*messages)

    assert outcome.repairs == ()
    assert outcome.messages[1] is messages[1]


@pytest.mark.parametrize("settings", [{}, {"agent_name": None}])
def test_a_waiting_call_is_left_alone_in_a_message_that_is_mended(settings):
    outcome = repaired(agent(*step("a"), asking("b"), call("c"), text("so"), result("a")), **settings)

    assert shape(outcome.messages)[0] == [
        "thinking:hm",
        "call:a",
        "result:a",
        "call:b",
        "call:c",
        "text:so",
        "result:c!",
    ]
    assert outcome.messages[0].content[3].state == "asking"


def test_a_call_that_waited_when_the_user_went_on_gets_its_error():
    outcome = repaired(agent(asking("a")), user("never mind"))

    assert shape(outcome.messages)[0] == ["call:a", "result:a!"]
    assert outcome.messages[0].content[0].state == "finished"


def test_a_waiting_call_of_another_agent_is_nobodys():
    assert kinds(repaired(agent(asking("a"), name="bob"))) == ["missing_result"]


def test_the_calls_of_a_running_reply_are_left_alone():
    messages = [user("do"), agent(call("a"), reply_id="reply")]

    assert repaired(*messages, is_running=True).repairs == ()
    assert kinds(repaired(*messages, is_running=True, reply_id="other")) == ["missing_result"]


def test_a_call_that_still_asks_though_it_has_a_result_no_longer_holds_the_agent_up():
    outcome = repaired(agent(asking("a"), result("a")))

    assert kinds(outcome) == ["stuck_call"]
    assert [outcome.messages[0].content[0].state, *shape(outcome.messages)[0]] == ["finished", "call:a", "result:a"]


# Calls of one turn with one id


def test_a_copy_of_a_call_in_its_turn_is_dropped():
    outcome = repaired(agent(call("a", q=1), call("a", q=1), result("a"), result("a", "second")), user("x"))

    assert shape(outcome.messages)[0] == ["call:a", "result:a"]
    assert kinds(outcome) == ["duplicate_call", "duplicate_result"]
    assert shape(outcome.dropped) == [["call:a", "result:a"]]


def test_another_call_with_an_id_of_its_turn_gets_an_id_of_its_own_and_keeps_its_result():
    outcome = repaired(agent(call("a", q=1), call("a", q=2), result("a", "one"), result("a", "two"), call("a-2")))

    assert shape(outcome.messages)[0] == ["call:a", "call:a-3", "result:a", "result:a-3", "call:a-2", "result:a-2!"]
    assert [block.output for block in outcome.messages[0].content[2:4]] == ["one", "two"]


# Messages


@pytest.mark.parametrize("first", [["so", "and"], ["so"], []])
def test_of_two_messages_with_one_id_the_one_with_nothing_of_its_own_is_dropped(first):
    short, whole = agent(*first, reply_id="m"), agent(*first, "more", reply_id="m")
    whole.content[: len(first)] = short.content

    for messages in ([short, user("x"), whole], [whole, user("x"), short]):
        outcome = repaired(*messages)
        assert [message for message in outcome.messages if message.id == "m"] == [whole]
        assert outcome.dropped[0] is short
        assert kinds(outcome) == ["duplicate_message"]


def test_two_messages_with_one_id_both_stay_where_both_say_something():
    outcome = repaired(agent("one", reply_id="m"), user("x"), agent("two", reply_id="m"), agent("three", reply_id="m"))

    assert [message.id for message in outcome.messages if message.role == "assistant"] == ["m", "m-2", "m-3"]
    assert outcome.dropped == []


def test_the_message_of_a_parked_reply_keeps_its_id():
    outcome = repaired(agent("one", reply_id="reply"), user("x"), agent(asking("a"), reply_id="reply"))

    assert [outcome.messages[0].id, outcome.messages[2].id] == ["reply-2", "reply"]


def test_empty_messages_are_dropped_but_not_the_one_that_a_reply_has_just_begun():
    messages = [user("do"), agent(), user("x"), agent(reply_id="reply")]

    assert shape(repaired(*messages).messages) == [["text:do"], ["text:x"]]
    assert repaired(*messages).dropped == [messages[1], messages[3]]
    assert shape(repaired(*messages, is_running=True).messages) == [["text:do"], ["text:x"], []]


def test_a_repair_says_where_and_what():
    message: FakeMsg = agent(call("a", "search"), reply_id="m7")

    [repair] = repaired(message, user("x")).repairs

    assert (repair.kind, repair.message_id, repair.block_id) == ("missing_result", "m7", "a")
    assert repair.what == "call 'a' (search) in message 'm7' has no result: an error was put there"
