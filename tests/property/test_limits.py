"""What holds over every context for the limit of the history and for the chunks that leave (rows O5 and O7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.config import HistoryConfig
from ctxkit.invariants import broken_rules, misplaced
from ctxkit.strategies.compress import CompressStrategy, newest_chunks
from ctxkit.strategies.history_limit import HistoryLimitStrategy
from ctxkit.strategies.ladder import leaving, plan_ladder
from tests.property.contexts import Context, contexts
from tests.property.plans import Policy, applied, policies, situation

some = contexts() | contexts(hostile=True)
many = settings(max_examples=60, deadline=None)


def limited(context: Context, policy: Policy, most: int):
    history = HistoryConfig(max_user_turns=most)
    return situation(context.view(), replace(policy, settings=replace(policy.settings, history=history)))


@pytest.mark.row("O5")
@many
@given(context=some, policy=policies, most=st.integers(1, 4))
def test_a_history_limit_breaks_no_rule_and_leaves_the_newest_turns_as_they_are(context, policy, most):
    here = limited(context, policy, most)
    view, edits = here.view, HistoryLimitStrategy().plan_edits(here)

    assert [problem for edit in edits if (problem := misplaced(view, edit, pinned=frozenset()))] == []
    assert broken_rules(view, applied(view, edits), tokens_before=1, tokens_after=0) == ()
    kept = {index for turn in view.finished_turns[-most:] for index in turn} | set(view.latest_request)
    assert {place.message for place in leaving(edits)}.isdisjoint(kept)


@pytest.mark.row("O5")
@many
@given(context=some, policy=policies, most=st.integers(1, 4))
def test_what_a_limit_hides_is_hidden_whatever_else_leaves(context, policy, most):
    here = limited(context, policy, most)
    hidden = leaving(HistoryLimitStrategy().plan_edits(here))

    edits = plan_ladder(here, keep_tokens=policy.keep_tokens, kind=policy.kind)

    assert leaving(edit for edit in edits if edit.rule == "history_limit") == hidden
    assert len(leaving(edits)) == sum(len(leaving([edit])) for edit in edits)  # no block twice


@pytest.mark.row("O7")
@many
@given(context=some, policy=policies, chunks=st.integers(2, 16), most=st.sampled_from([0, 10, 100, 2_000]))
def test_chunks_leave_until_the_rest_is_within_its_budget_and_every_call_has_its_result(context, policy, chunks, most):
    here = situation(context.view(), policy)
    left = newest_chunks(here, chunks, most_tokens=most)

    edits = CompressStrategy(keep_tokens=left).plan_edits(here)
    after = applied(here.view, edits)

    assert broken_rules(here.view, after, tokens_before=1, tokens_after=0) == ()
    total = sum(map(sum, here.tokens))
    assert left <= max(most, total)
    if left > most:  # what may not be cut
        assert left == newest_chunks(here, chunks, most_tokens=0) or left == total
