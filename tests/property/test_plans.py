"""What holds for every plan over every context, well-formed or hostile."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.invariants import broken_rules
from ctxkit.plan import Edit, EditKind, Plan, Reason
from ctxkit.strategies.ladder import LEAVING, freed_tokens, leaving, plan_ladder
from ctxkit.view import View
from tests.property.contexts import Context, contexts
from tests.property.plans import Policy, applied, policies, reloaded, situation, tokens_of, total

anything = contexts() | contexts(hostile=True)
many = settings(max_examples=100, deadline=None)


def planned(context: Context, policy: Policy) -> tuple[View, tuple[Edit, ...], View]:
    view = context.view()
    edits = policy.plan(situation(view, policy))
    return view, edits, applied(view, edits)


@many
@given(anything, policies)
def test_no_plan_breaks_a_rule(context: Context, policy: Policy):
    before, edits, after = planned(context, policy)
    must_shrink = any(edit.kind is not EditKind.IMAGE for edit in edits)
    assert (
        broken_rules(before, after, tokens_before=total(before), tokens_after=total(after), must_shrink=must_shrink)
        == ()
    )


@many
@given(anything, policies)
def test_no_plan_parts_a_call_from_its_result_or_from_the_thinking_before_it(context: Context, policy: Policy):
    before, edits, _ = planned(context, policy)
    gone = leaving(edits)
    for exchange in before.exchanges:
        if exchange.result is not None:
            assert (exchange.call in gone) == (exchange.result in gone)
        thought = exchange.call._replace(block=exchange.call.block - 1)
        if exchange.call.block and before.contents[thought.message][thought.block].type == "thinking":
            assert (exchange.call in gone) == (thought in gone)


@many
@given(anything, policies)
def test_unfinished_calls_stay_as_they_are_in_the_last_message(context: Context, policy: Policy):
    before, _, after = planned(context, policy)
    stay = {id(before.contents[e.call.message][e.call.block]) for e in before.unfinished}
    assert stay <= {id(block) for _, block in after.blocks()}
    if before.is_running_last:
        assert after.is_running_last


@many
@given(anything, policies)
def test_the_newest_request_stays_verbatim_or_is_cut_to_its_budget_and_marked(context: Context, policy: Policy):
    before, _, after = planned(context, policy)
    budget = policy.settings.paste_limit(policy.context_size)
    requests = [before.messages[index] for index in before.latest_request]
    sizes = {m.id: [(b.id, tokens_of(b)) for b in m.content if b.type == "text"] for m in requests}
    over = sum(tokens for blocks in sizes.values() for _, tokens in blocks) > budget
    kept = {message.id: message for message in after.messages}
    for message in requests:
        texts = [b.text for b in message.content if b.type == "text"]
        there = [b.text for b in kept[message.id].content if b.type == "text" and b.id in dict(sizes[message.id])]
        assert there == texts or (over and kept[message.id].metadata["ctxkit"]["shortened"])


@many
@given(anything, policies)
def test_untouched_messages_are_the_same_objects_and_none_is_changed(context: Context, policy: Policy):
    copies = [message.model_copy(deep=True) for message in context.messages]
    before, edits, after = planned(context, policy)
    assert context.messages == copies
    touched = {edit.message for edit in edits}
    untouched = [id(message) for index, message in enumerate(before.messages) if index not in touched]
    assert [id(message) for message in after.messages if id(message) in set(untouched)] == untouched


@many
@given(anything, policies)
def test_edits_name_real_blocks_and_no_block_twice(context: Context, policy: Policy):
    before, edits, _ = planned(context, policy)
    assert all(edit.message_id == before.messages[edit.message].id for edit in edits)
    assert all(0 <= edit.start <= edit.stop <= len(before.contents[edit.message]) for edit in edits)
    named = Counter((edit.message, number) for edit in edits for number in range(edit.start, edit.stop))
    assert not [place for place, count in named.items() if count > 1]


@many
@given(anything, policies)
def test_a_plan_frees_what_it_says(context: Context, policy: Policy):
    before, edits, after = planned(context, policy)
    if not any(edit.kind is EditKind.IMAGE for edit in edits):
        assert total(before) - total(after) >= freed_tokens(situation(before, policy), edits) - 1e-6


@many
@given(anything, policies)
def test_the_same_context_gets_the_same_edits_also_after_a_restart(context: Context, policy: Policy):
    _, edits, _ = planned(context, policy)
    assert planned(context, policy)[1] == edits
    assert planned(reloaded(context), policy)[1] == edits


@many
@given(anything, policies)
def test_a_plan_over_its_own_outcome_takes_nothing_more_away_and_soon_has_nothing_to_do(
    context: Context, policy: Policy
):
    view = context.view()
    outcomes = []
    for _ in range(3):
        edits = plan_ladder(situation(view, policy), keep_tokens=policy.keep_tokens, kind=policy.kind)
        outcomes.append(edits)
        view = applied(view, edits)
    assert not [edit for edit in outcomes[1] if edit.kind in LEAVING]
    assert outcomes[2] == ()


@many
@given(anything, policies)
def test_what_stays_fits_the_budget_but_for_the_last_step_and_the_newest_request(context: Context, policy: Policy):
    view = context.view()
    here = situation(view, policy)
    keep = policy.keep_tokens or 0
    cut = view.cut_for(here.tokens, keep)
    kept = sum(sum(row) for row in here.tokens[cut.message + 1 :])
    kept += sum(here.tokens[cut.message][cut.block :]) if len(view) else 0
    assert kept <= keep or not view.cuts or cut == view.cuts[-1]


@many
@given(anything, policies, st.sampled_from(Reason))
def test_a_plan_that_was_written_to_json_does_the_same_when_read_back(context: Context, policy: Policy, reason: Reason):
    before, edits, after = planned(context, policy)
    plan = Plan(reason=reason, edits=edits, tokens_before=2, tokens_after=1)
    back = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert back == plan
    again = applied(before, back.edits)
    assert [len(content) for content in again.contents] == [len(content) for content in after.contents]
