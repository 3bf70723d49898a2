"""What holds for the edits of every rung over every context, well-formed or hostile."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.config import LadderConfig
from ctxkit.invariants import broken_rules, misplaced
from ctxkit.plan import Edit, EditKind
from ctxkit.strategies import STRATEGIES, Situation
from ctxkit.strategies.ladder import freed_tokens, leaving
from ctxkit.view import Place, View
from tests.property.contexts import Context, contexts
from tests.property.plans import Policy, applied, policies, reloaded, situation, total

WASTE = "\x1b[31mred\x1b[0m   \n\n\n\n\n10%\r20%\r100%\n" * 20
rungs = pytest.mark.parametrize("rung", sorted(STRATEGIES))
many = settings(max_examples=40, deadline=None)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A context with what somebody pinned and what is still open in it."""

    context: Context
    policy: Policy
    pinned: frozenset[int]
    open_errors: frozenset[str]

    def situation(self, view: View | None = None) -> Situation:
        """Return the situation of this context, or of what became of it."""
        before = self.context.view()
        held = {id(before.messages[index]) for index in self.pinned}
        view = view or before
        pinned = frozenset(index for index, message in enumerate(view.messages) if id(message) in held)
        return replace(situation(view, self.policy), pinned=pinned, open_errors=self.open_errors)

    def planned(self, rung: str) -> tuple[Edit, ...]:
        return self.plan(rung, self.situation())

    def plan(self, rung: str, here: Situation) -> tuple[Edit, ...]:
        return STRATEGIES[rung](self.policy.settings).plan_edits(here)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    context = draw(contexts() | contexts(hostile=True))
    policy = draw(policies)
    blocks = [block for message in context.messages for block in message.content]
    for block in blocks:
        if block.type == "tool_result" and isinstance(block.output, str) and draw(st.booleans()):
            block.output = WASTE
    ids = sorted({block.id for block in blocks if block.type == "tool_call"})
    ladder = LadderConfig(keep_results=draw(st.sampled_from([0, 1, 5])))
    return Case(
        context=context,
        policy=replace(policy, settings=replace(policy.settings, ladder=ladder)),
        pinned=frozenset(
            draw(st.sets(st.sampled_from(range(len(context.messages))), max_size=2)) if context.messages else ()
        ),
        open_errors=frozenset(draw(st.sets(st.sampled_from(ids), max_size=2)) if ids else ()),
    )


@rungs
@many
@given(case=cases())
def test_edits_name_blocks_that_may_be_edited_and_no_block_twice(rung: str, case: Case):
    view, edits = case.context.view(), case.planned(rung)
    assert [problem for edit in edits if (problem := misplaced(view, edit, pinned=case.pinned))] == []
    assert all(edit.message_id == view.messages[edit.message].id and edit.rule == rung for edit in edits)
    named = [Place(edit.message, number) for edit in edits for number in range(edit.start, edit.stop)]
    assert len(named) == len(set(named))


@rungs
@many
@given(case=cases())
def test_open_errors_calls_that_wait_and_the_newest_request_are_never_touched(rung: str, case: Case):
    view = case.context.view()
    named = {Place(e.message, number) for e in case.planned(rung) for number in range(e.start, e.stop)}
    open_exchanges = [e for e in view.exchanges if e.call_id in case.open_errors]
    assert named.isdisjoint(e.call for e in open_exchanges)
    assert named.isdisjoint(e.result for e in open_exchanges)
    assert named.isdisjoint(e.call for e in view.unfinished)
    assert not [place for place in named if place.message in view.latest_request and is_text(view, place)]


def is_text(view: View, place: Place) -> bool:
    return view.contents[place.message][place.block].type == "text"


@rungs
@many
@given(case=cases())
def test_a_rung_breaks_no_rule_and_frees_what_it_says(rung: str, case: Case):
    here, edits = case.situation(), case.planned(rung)
    after = applied(here.view, edits)
    before_tokens, after_tokens = total(here.view), total(after)
    assert broken_rules(here.view, after, tokens_before=1, tokens_after=0, pinned=case.pinned) == ()
    assert before_tokens - after_tokens >= freed_tokens(here, edits) - 1e-6
    # A line has more characters a token than this count gives it, never fewer.
    assert all(freed_tokens(here, [edit]) > 0 for edit in edits if edit.kind is not EditKind.DROP)


@rungs
@many
@given(case=cases())
def test_a_call_and_its_result_leave_together_or_stay_together(rung: str, case: Case):
    gone = leaving(case.planned(rung))
    for exchange in case.context.view().exchanges:
        if exchange.result is not None:
            assert (exchange.call in gone) == (exchange.result in gone)


@pytest.mark.parametrize("rung", sorted(set(STRATEGIES) - {"drop_turns"}))
@many
@given(case=cases())
def test_a_second_time_there_is_nothing_left_to_do(rung: str, case: Case):
    after = applied(case.context.view(), case.planned(rung))
    assert case.plan(rung, case.situation(after)) == ()


@rungs
@many
@given(case=cases())
def test_the_same_context_gets_the_same_bytes_also_after_a_restart(rung: str, case: Case):
    again = replace(case, context=reloaded(case.context))
    assert case.planned(rung) == case.planned(rung) == again.planned(rung)


@many
@given(case=cases())
def test_of_equal_results_one_is_always_left_as_it_was(case: Case):
    view, edits = case.context.view(), case.planned("deduplicate")
    after = applied(view, edits)
    assert texts_of(after) >= {view.contents[e.message][e.start].output for e in edits if is_plain(view, e)}


def is_plain(view: View, edit: Edit) -> bool:
    return isinstance(view.contents[edit.message][edit.start].output, str)


def texts_of(view: View) -> set[str]:
    return {b.output for _, b in view.blocks() if b.type == "tool_result" and isinstance(b.output, str)}
