"""What the view says of a context: exchanges, legal cuts, the newest request, and the cut for a budget."""

from __future__ import annotations

from collections import Counter

import pytest

from ctxkit.view import REQUEST_MESSAGES, Exchange, Place, View
from tests.unit.fakes import FakeMsg, agent, call, hint, result, step, text, thinking, tokens_of, user, watched


def view(*messages: FakeMsg, reply_id: str = "") -> View:
    return View(messages, agent_name="agent", reply_id=reply_id)


def weights(seen: View) -> list[list[float]]:
    return [[tokens_of(block) for block in content] for content in seen.contents]


def test_an_empty_context_has_nothing_to_cut_and_no_request():
    empty = view()
    assert (empty.cuts, empty.latest_request, empty.exchanges, empty.is_running_last) == ((), (), (), False)
    assert empty.cut_for([], 100) == (0, 0)


def test_a_message_that_grows_after_the_view_was_made_does_not_change_the_view():
    running = agent("a")
    seen = view(running)
    running.content.append(text("b"))
    assert [place for place, _ in seen.blocks()] == [(0, 0)]


class TestExchanges:
    def test_parallel_calls_find_their_results_in_any_order(self):
        seen = view(agent(call("a"), call("b"), result("b"), result("a")))
        assert seen.exchanges == (
            Exchange(call_id="a", tool="tool", call=Place(0, 0), result=Place(0, 3)),
            Exchange(call_id="b", tool="tool", call=Place(0, 1), result=Place(0, 2)),
        )

    def test_a_result_in_a_later_message_belongs_to_its_call(self):
        seen = view(agent(call("a")), agent(result("a")))
        assert [exchange.result for exchange in seen.exchanges] == [Place(1, 0)]

    def test_an_id_that_is_used_again_starts_a_new_exchange(self):
        seen = view(agent(*step("call_0")), user("more"), agent(*step("call_0")))
        assert [(e.call, e.result) for e in seen.exchanges] == [((0, 1), (0, 2)), ((2, 1), (2, 2))]

    def test_a_second_result_of_a_call_belongs_to_no_exchange(self):
        seen = view(agent(call("a"), result("a"), result("a")))
        assert [exchange.result for exchange in seen.exchanges] == [Place(0, 1)]

    def test_a_call_without_a_result_in_the_last_message_is_unfinished(self):
        seen = view(user("do"), agent(call("a"), call("b"), result("a")))
        assert [exchange.call_id for exchange in seen.unfinished] == ["b"]

    def test_a_call_of_the_running_reply_stays_unfinished_when_something_is_observed_behind_it(self):
        seen = view(agent(call("a"), reply_id="r"), user("by the way"), reply_id="r")
        assert [exchange.call_id for exchange in seen.unfinished] == ["a"]

    def test_a_call_that_an_older_reply_left_without_a_result_is_not_waited_for(self):
        seen = view(agent(call("a"), reply_id="old"), user("again"), agent("yes", reply_id="r"), reply_id="r")
        assert seen.unfinished == ()


class TestCuts:
    def test_a_cut_is_legal_at_each_message_and_at_each_reasoning_step(self):
        seen = view(user("do"), agent(*step("a"), *step("b"), "done"))
        assert seen.cuts == ((0, 0), (1, 0), (1, 3), (1, 6))

    def test_no_cut_parts_parallel_calls_from_their_interleaved_results(self):
        seen = view(agent(call("a"), call("b"), result("b"), result("a"), "done"))
        assert seen.cuts == ((0, 0), (0, 4))

    def test_no_cut_parts_a_call_from_its_result_in_a_later_message(self):
        seen = view(user("do"), agent(call("a")), agent("note", name="other"), agent(result("a")), agent("done"))
        assert seen.cuts == ((0, 0), (1, 0), (4, 0))

    def test_no_cut_stands_behind_an_unfinished_call(self):
        seen = view(user("do"), agent(*step("a"), call("b"), hint(), call("c"), result("c"), "text"))
        assert seen.cuts == ((0, 0), (1, 0), (1, 3))

    def test_a_call_that_was_left_without_a_result_does_not_keep_the_rest_from_leaving(self):
        seen = view(agent(call("a")), user("again"), agent("yes"))
        assert seen.cuts == ((0, 0), (1, 0), (2, 0))

    def test_thinking_is_not_cut_off_its_calls(self):
        seen = view(agent(thinking(), "let me see", thinking(), call("a"), result("a")))
        assert seen.cuts == ((0, 0),)

    def test_a_hint_opens_a_step_where_the_agent_went_on_after_it(self):
        seen = view(agent(*step("a"), hint(), *step("b")))
        assert seen.cuts == ((0, 0), (0, 3), (0, 4))

    def test_hints_at_the_end_stay_with_the_results_that_the_model_has_not_seen(self):
        seen = view(agent(*step("a"), *step("b"), hint(), hint()))
        assert seen.cuts == ((0, 0), (0, 3))

    def test_a_second_result_of_a_call_is_not_cut_off_the_first(self):
        seen = view(agent(call("a"), result("a"), result("a"), "done"))
        assert seen.cuts == ((0, 0), (0, 3))

    def test_an_orphan_result_closes_nothing(self):
        seen = view(agent(call("a"), result("x"), "text", result("a"), "done"))
        assert seen.cuts == ((0, 0), (0, 4))


class TestLatestRequest:
    def test_it_is_the_last_run_of_user_messages(self):
        seen = view(user("one"), agent("ok"), user("two"), user("three", name="bob"), agent("ok"))
        assert seen.latest_request == (2, 3)

    def test_there_is_none_where_no_user_has_spoken(self):
        assert view(agent("hello")).latest_request == ()

    def test_of_a_chat_that_was_only_listened_to_it_is_the_newest_messages(self):
        seen = view(*(user(str(i)) for i in range(100)))
        assert seen.latest_request == tuple(range(100 - REQUEST_MESSAGES, 100))


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (agent("x", reply_id="r"), True),
        (agent(reply_id="r"), True),
        (agent("x", reply_id="other"), False),
        (agent("x", name="other", reply_id="r"), False),
        (user("x"), False),
    ],
)
def test_the_running_message_is_the_agents_own_with_the_replys_id(tail: FakeMsg, expected: bool):
    assert view(user("do"), tail, reply_id="r").is_running_last is expected


class TestCutFor:
    seen = view(user("u" * 10), agent(*step("a", "r" * 100), *step("b", "r" * 100)), user("v" * 10), agent("w" * 10))
    one_step = 2 + 2 + 100

    @pytest.mark.parametrize(
        ("keep", "expected"),
        [
            (0, (3, 0)),
            (9, (3, 0)),
            (10, (3, 0)),
            (20, (2, 0)),
            (20 + one_step, (1, 3)),
            (20 + 2 * one_step, (1, 0)),
            (1e9, (0, 0)),
        ],
    )
    def test_it_keeps_as_much_as_the_budget_allows_and_always_the_last_step(self, keep: float, expected: Place):
        assert self.seen.cut_for(weights(self.seen), keep) == expected

    def test_an_empty_running_message_behind_the_last_step_takes_nothing_from_the_budget(self):
        seen = view(user("do"), agent(*step("a")), agent(reply_id="r"), reply_id="r")
        assert seen.cut_for(weights(seen), 0) == (1, 0)


def reads_of(messages: int, steps: int) -> int:
    reads: Counter[str] = Counter()
    seen = view(*watched(messages, steps, reads))
    assert seen.cut_for([[1.0] * len(row) for row in seen.contents], 10.0)
    assert not seen.unfinished
    assert not seen.latest_request
    return reads.total()


@pytest.mark.parametrize(("small", "large"), [((1, 2000), (1, 8000)), ((2000, 1), (8000, 1))])
def test_the_work_of_a_view_grows_with_its_blocks_and_no_faster(small: tuple[int, int], large: tuple[int, int]):
    assert reads_of(*large) <= 4 * reads_of(*small) + 50


def test_what_a_message_gets_while_a_plan_is_made_is_no_part_of_the_plans_outcome():
    grows = agent(call("a"))
    before = View([user("do"), grows])
    grows.content.append(result("a"))
    grows.content.append(call("b"))
    after = before.changed(before.messages[1:])
    assert after.contents == before.contents[1:]
    assert [exchange.call_id for exchange in after.unfinished] == ["a"]


def test_a_turn_goes_from_a_run_of_user_messages_to_the_next():
    messages = [agent("hello"), user("a"), user("b"), agent("so"), agent("done"), user("c"), agent("so")]
    view = View(messages, agent_name="agent")
    assert view.turns == (range(1), range(1, 5), range(5, 7))
    assert view.finished_turns == (range(1), range(1, 5))
    assert View([]).turns == View([]).finished_turns == View([agent("hello")]).finished_turns == ()
