"""Each rule that no plan may break, kept and broken."""

from __future__ import annotations

from dataclasses import replace

from ctxkit.invariants import broken_rules
from ctxkit.view import View
from tests.unit.fakes import FakeMsg, agent, call, result, step, text, thinking, user


def broken(before: list[FakeMsg], after: list[FakeMsg], *, freed: int = 1) -> tuple[str, ...]:
    views = (View(messages, agent_name="agent", reply_id="r") for messages in (before, after))
    return broken_rules(*views, tokens_before=100, tokens_after=100 - freed)


REQUEST = user("do")


def test_a_context_that_only_lost_its_oldest_steps_breaks_no_rule():
    old = agent(*step("a"), *step("b"), reply_id="r")
    assert broken([user("old"), agent("ok"), REQUEST, old], [REQUEST, replace(old, content=old.content[3:])]) == ()


def test_a_change_that_frees_nothing_is_refused():
    expected = ("the request would not shrink: 100 tokens before, 100 after",)
    assert broken([REQUEST], [REQUEST], freed=0) == expected


class TestPairs:
    def test_a_call_that_lost_its_result_is_named(self):
        before, after = agent(call("a"), result("a"), "done"), agent(call("a"), "done")
        assert broken([before, agent()], [after, agent()]) == ("call 'a' lost its result",)

    def test_a_result_that_lost_its_call_is_named(self):
        assert broken([agent(*step("a"))], [agent(result("a"))]) == ("result 'a' lost its call",)

    def test_a_result_that_lost_its_call_is_named_where_the_id_is_used_again(self):
        before = [agent(*step("call_0")), agent(*step("call_0"))]
        assert broken(before, [agent(result("call_0")), before[1]]) == ("result 'call_0' lost its call",)

    def test_calls_and_results_that_were_single_before_may_stay_or_go(self):
        before = [agent(call("a")), agent(result("b")), agent("x")]
        assert broken(before, before) == ()
        assert broken(before, before[1:]) == ()
        assert broken(before, before[2:]) == ()


def test_an_unfinished_call_that_is_gone_is_named():
    before = [REQUEST, agent(*step("a"), call("b"), reply_id="r")]
    after = [REQUEST, agent(*before[1].content[:3], reply_id="r")]
    assert broken(before, after) == ("unfinished call 'b' is gone",)


class TestRequest:
    def test_a_newest_request_that_is_gone_is_named(self):
        assert broken([REQUEST, agent("ok")], [agent("ok")]) == (f"the newest user request {REQUEST.id!r} is gone",)

    def test_a_newest_request_whose_words_were_changed_is_named(self):
        changed = replace(REQUEST, content=[text("undo")])
        assert broken([REQUEST], [changed]) == (f"the newest user request {REQUEST.id!r} was changed",)

    def test_a_newest_request_that_is_marked_as_shortened_may_differ(self):
        assert (
            broken([REQUEST], [replace(REQUEST, content=[text("d")], metadata={"ctxkit": {"shortened": True}})]) == ()
        )

    def test_an_older_request_may_go(self):
        assert broken([user("old"), agent("ok"), REQUEST], [REQUEST]) == ()

    def test_two_messages_that_share_an_id_are_not_mistaken_for_each_other(self):
        both = [replace(REQUEST, content=[text("first")]), REQUEST]
        assert broken([*both, agent("ok")], both) == ()


class TestThinking:
    def test_a_call_that_lost_its_thinking_is_named(self):
        before = agent(thinking(), call("a"), result("a"))
        after = replace(before, content=before.content[1:])
        assert broken([before], [after]) == ("call 'a' lost its thinking",)

    def test_thinking_of_an_earlier_step_may_go(self):
        before = agent(*step("a"), *step("b"))
        assert broken([before], [replace(before, content=before.content[3:])]) == ()

    def test_the_loss_is_named_where_the_id_is_used_again(self):
        first, second = agent(*step("call_0")), agent(*step("call_0"))
        after = replace(second, content=second.content[1:])
        assert broken([first, second], [after]) == ("call 'call_0' lost its thinking",)

    def test_an_older_step_may_go_where_the_id_is_used_again(self):
        first, second = agent(*step("call_0")), agent(*step("call_0"))
        assert broken([first, second], [second]) == ()


def test_a_message_behind_that_of_the_running_reply_is_named():
    running = agent("x", reply_id="r")
    expected = ("the running reply's message is no longer the last one",)
    assert broken([REQUEST, running], [running, REQUEST]) == expected


def test_every_broken_rule_is_told():
    before = [REQUEST, agent(thinking(), call("a"), result("a"), call("b"), reply_id="r")]
    assert len(broken(before, [agent(call("a"))], freed=-5)) == 6


def test_thinking_of_a_turn_that_is_over_may_go_from_before_its_call():
    old = agent(*step("a"), "done")
    assert broken([old, REQUEST], [replace(old, content=old.content[1:]), REQUEST]) == ()


def test_thinking_of_the_running_reply_stays_though_somebody_has_spoken_since():
    running = agent(*step("a"), reply_id="r")
    after = replace(running, content=running.content[1:])
    assert "call 'a' lost its thinking" in broken([running, REQUEST], [after, REQUEST])


class TestPins:
    def kept(self, before: list[FakeMsg], after: list[FakeMsg], *, layer: str = "") -> tuple[str, ...]:
        views = (View(messages, agent_name="agent") for messages in (before, after))
        return broken_rules(*views, tokens_before=2, tokens_after=1, pinned=frozenset({0}), layer=layer)

    def test_a_pinned_message_that_is_gone_or_changed_is_named(self):
        pinned = user("port 4711")
        expected = (f"the pinned message {pinned.id!r} is gone or was changed",)
        assert self.kept([pinned, agent("ok"), REQUEST], [REQUEST]) == expected
        assert self.kept([pinned, agent("ok"), REQUEST], [replace(pinned, content=[text("port")]), REQUEST]) == expected

    def test_a_pinned_message_may_stand_in_the_summary_layer(self):
        assert self.kept([user("port 4711"), agent("ok"), REQUEST], [REQUEST], layer="Pinned: port 4711.") == ()
