"""Plans and receipts are plain data that survive JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ctxkit.plan import Edit, EditKind, Plan, Reason, Receipt
from ctxkit.port import Usage

counts = st.integers(0, 10**9)
edits = st.builds(
    Edit,
    kind=st.sampled_from(EditKind),
    message=counts,
    message_id=st.text(),
    start=counts,
    stop=counts,
    tokens=counts,
    keep_tokens=counts,
    images=counts,
    reference=st.none() | st.text(),
)
plans = st.builds(
    Plan,
    reason=st.sampled_from(Reason),
    edits=st.lists(edits, max_size=5).map(tuple),
    tokens_before=counts,
    tokens_after=counts,
)


@given(plans)
def test_a_plan_that_was_written_to_json_is_read_back_as_it_was(plan: Plan):
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@given(plans)
def test_the_kinds_and_reasons_of_a_plan_are_told_apart_again_after_json(plan: Plan):
    back = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert isinstance(back.reason, Reason)
    assert all(isinstance(edit.kind, EditKind) for edit in back.edits)


def test_no_two_plans_have_the_same_id():
    ids = {Plan(reason=Reason.TRIGGER, edits=(), tokens_before=1, tokens_after=1).id for _ in range(100)}
    assert len(ids) == 100


def test_a_receipt_is_written_to_json_with_all_that_it_says():
    receipt = Receipt(
        plan_id="p",
        reason=Reason.TOOL,
        outcome="applied",
        tokens_before=10,
        tokens_after=5,
        limit_tokens=8,
        is_prepared=True,
        rules=("summarize",),
        usage=Usage(input_tokens=7, output_tokens=1),
        stable_tokens=3,
        why="somebody asked for it",
        problems=("slow",),
    )
    assert json.loads(json.dumps(receipt.to_json())) == {
        "plan_id": "p",
        "reason": "tool",
        "outcome": "applied",
        "tokens_before": 10,
        "tokens_after": 5,
        "limit_tokens": 8,
        "messages_compressed": 0,
        "blocks_shortened": 0,
        "summary": "none",
        "reference": None,
        "is_prepared": True,
        "rules": ["summarize"],
        "usage": {"input_tokens": 7, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0},
        "stable_tokens": 3,
        "why": "somebody asked for it",
        "seconds": 0.0,
        "problems": ["slow"],
    }
