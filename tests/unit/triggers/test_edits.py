"""What is expected of the next edit, learnt from those before."""

import json

import pytest

from ctxkit.config import Price
from ctxkit.plan import Reason, Receipt
from ctxkit.port import Usage
from ctxkit.triggers import Habits, PastEdits, edit_cost

PRICE = Price(cached=0.1, written=1.25, output=5)


def receipt(
    *,
    before: int = 60_000,
    after: int = 30_000,
    stable: int = 14_000,
    answer: int | None = 900,
    reason: Reason = Reason.TRIGGER,
) -> Receipt:
    return Receipt(
        plan_id="p",
        reason=reason,
        outcome="applied",
        tokens_before=before,
        tokens_after=after,
        limit_tokens=60_000,
        summary="none" if answer is None else "warm",
        usage=None if answer is None else Usage(input_tokens=60_000, output_tokens=answer),
        stable_tokens=stable,
    )


def test_the_first_edit_is_expected_to_leave_what_stands_before_the_messages_a_summary_and_what_is_kept():
    assert PastEdits().floor(prefix_tokens=12_000, keep_tokens=10_000) == 12_000 + 1_500 + 10_000


def test_later_ones_are_expected_to_leave_what_the_last_one_left():
    edits = PastEdits().after(receipt(after=31_000))

    assert edits.floor(prefix_tokens=12_000, keep_tokens=10_000) == 31_000


def test_one_edit_that_leaves_more_counts_by_half_and_one_that_leaves_less_at_once():
    edits = PastEdits().after(receipt(after=30_000)).after(receipt(after=60_000))

    assert edits.floor_tokens == 45_000
    assert edits.after(receipt(after=31_000)).floor_tokens == 31_000


def test_what_the_last_edit_kept_and_inserted_is_what_the_next_one_writes_anew():
    edits = PastEdits().after(receipt(answer=1_500))

    # 30,000 stood there, of these 18,000 before the messages, and of those 14,000 were as before: 12,000 kept, 4,000 new.
    cost = edits.cost(PRICE, prefix_tokens=18_000, keep_tokens=99)

    assert cost == pytest.approx(
        edit_cost(
            PRICE, request_tokens=30_000, kept_tokens=12_000, inserted_tokens=4_000, answer_tokens=1_500, call="warm"
        )
    )


def test_edits_that_ask_no_model_make_the_next_one_cheaper():
    asked, unasked = PastEdits(), PastEdits()
    for _ in range(5):
        asked, unasked = asked.after(receipt(answer=1_500)), unasked.after(receipt(answer=None))

    costs = [edits.cost(PRICE, prefix_tokens=18_000, keep_tokens=0) for edits in (asked, unasked)]

    assert unasked.asked < 0.2
    assert costs[1] < 0.8 * costs[0]


def test_where_every_second_edit_only_clears_the_next_one_is_priced_as_one_that_does():
    edits = PastEdits()
    for _ in range(10):
        edits = edits.after(receipt(after=26_000, stable=12_000, answer=1_500))
        edits = edits.after(receipt(after=30_000, stable=20_000, answer=None))

    cost = edits.cost(PRICE, prefix_tokens=22_000, keep_tokens=0)

    # 10,000 tokens were written anew, 5,000 of them in place of what left: about 26,000 + 4,000 / 2 stay.
    kept = edits.floor_tokens - 22_000
    assert 0 < kept < 10_000
    assert cost == pytest.approx(
        edit_cost(PRICE, request_tokens=0, kept_tokens=kept, inserted_tokens=10_000 - kept, call="none")
    )


def test_a_summary_costs_its_call_and_what_it_writes_beyond_an_edit_that_only_clears():
    edits = PastEdits()
    for _ in range(20):
        edits = edits.after(receipt(after=26_000, stable=8_000, answer=1_500))
        edits = edits.after(receipt(after=30_000, stable=20_000, answer=None))

    assert edits.summary_cost(PRICE, request_tokens=60_000) == pytest.approx(0.1 * 60_000 + 5 * 1_500 + 1.25 * 8_000)
    assert edits.summary_cost(PRICE, request_tokens=60_000, call="cold") > edits.summary_cost(
        PRICE, request_tokens=60_000
    )


def test_steps_are_counted_from_summary_to_summary_whatever_is_cleared_between():
    edits = PastEdits().after_step().after_step().after(receipt(answer=None)).after_step()

    assert edits.steps_since == 3
    assert edits.after(receipt(answer=900)).steps_since == 0


def test_edits_that_come_behind_their_trigger_are_expected_to_again_whatever_was_asked_for_by_hand():
    edits = PastEdits()
    for _ in range(20):
        edits = edits.after(receipt(before=64_000)).after(receipt(before=40_000, reason=Reason.MANUAL))

    assert edits.late_tokens == pytest.approx(4_000, rel=0.01)


def test_long_summaries_are_expected_again():
    edits = PastEdits()
    for _ in range(10):
        edits = edits.after(receipt(answer=4_000))

    assert edits.answer_tokens == pytest.approx(4_000, rel=0.05)


def test_recalls_are_counted_from_edit_to_edit_and_make_it_dearer():
    edits = PastEdits().after_recall()  # nothing has left yet, so that it is none of ours
    assert edits.recalls_since == 0

    edits = edits.after(receipt())
    before = edits.cost(PRICE, prefix_tokens=18_000, keep_tokens=0)
    for _ in range(8):
        for _ in range(4):
            edits = edits.after_recall()
        edits = edits.after(receipt())

    assert edits.recalls == pytest.approx(4, rel=0.1)
    assert edits.cost(PRICE, prefix_tokens=18_000, keep_tokens=0) > before


def test_all_habits_survive_a_restart_and_are_small():
    habits = Habits(edits=PastEdits().after(receipt()), reply_id="r" * 32, seen_at=1_800_000_000.5)
    saved = json.dumps(habits.to_json())

    assert Habits.from_json(json.loads(saved)) == habits
    assert len(saved) < 1_000


@pytest.mark.parametrize("saved", [None, "x", {}, {"version": 99}, {"version": 1, "edits": {"asked": "yes"}}])
def test_what_cannot_be_read_is_begun_anew(saved):
    assert Habits.from_json(saved) == Habits()
