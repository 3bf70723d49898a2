"""What holds for every climb over every context, well-formed or hostile."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.config import LadderConfig
from ctxkit.config.ladder import KNOWN_RUNGS
from ctxkit.engine.apply import apply_edits
from ctxkit.engine.climb import Aim, Climb
from ctxkit.invariants import broken_rules
from ctxkit.plan import EditKind
from ctxkit.strategies import Situation
from ctxkit.strategies.ladder import LEAVING, freed_tokens, leaving, plan_ladder, stacked
from tests.property.contexts import Context, contexts
from tests.property.plans import CODEC, Policy, policies, situation

pytestmark = pytest.mark.row("X3")
many = settings(max_examples=60, deadline=None)
ladders = st.builds(
    LadderConfig,
    rungs=st.lists(st.sampled_from(KNOWN_RUNGS), min_size=1, unique=True),
    strategy=st.sampled_from(["summarize", "truncate"]),
    keep_results=st.sampled_from([0, 1, 5]),
    keep_messages=st.sampled_from([None, 0, 3]),
    texts_below_turns=st.sampled_from([None, 1, 3]),
)


def climbed(here: Situation, share: float, *, force: bool = False) -> Climb:
    goal = here.request_tokens * share
    aim = Aim(
        due_tokens=goal,
        goal_tokens=goal,
        fit_tokens=goal,
        limit_tokens=here.request_tokens * 2 * share,
        layer_tokens=10,
        worth_tokens=1,
        keep_tokens=goal / 2,
        force=force,
    )
    return Climb(situation=here, aim=aim, codec=CODEC)


def here_of(context: Context, policy: Policy, ladder: LadderConfig) -> Situation:
    return situation(context.view(), replace(policy, settings=replace(policy.settings, ladder=ladder)))


@many
@given(contexts() | contexts(hostile=True), policies, ladders, st.sampled_from([0.1, 0.5, 0.9]))
def test_a_climb_breaks_no_rule_and_names_no_block_twice(
    context: Context, policy: Policy, ladder: LadderConfig, share: float
):
    here = here_of(context, policy, ladder)
    chosen = asyncio.run(climbed(here, share).choose())
    after = here.view.changed(apply_edits(here.view, chosen.edits, {}, CODEC))
    assert broken_rules(here.view, after, tokens_before=1, tokens_after=0) == ()
    assert chosen.problems == ()
    named = Counter((edit.message, number) for edit in chosen.edits for number in range(edit.start, edit.stop))
    assert not [place for place, count in named.items() if count > 1]


@many
@given(contexts(), policies, ladders)
def test_each_rung_that_has_a_part_makes_the_request_strictly_smaller(
    context: Context, policy: Policy, ladder: LadderConfig
):
    here = here_of(context, policy, ladder)
    edits = plan_ladder(here, keep_tokens=None)
    for rung in ladder.rungs_where(is_priced=True):
        if rung == "summarize":
            continue
        more = asyncio.run(climbed(here, 0.5)._rung(rung, edits))
        if more:
            assert freed_tokens(here, stacked(edits, more)) > freed_tokens(here, edits)
            assert {edit.rule for edit in more} == {rung}
            edits = stacked(edits, more)


@many
@given(contexts(), policies, ladders, st.sampled_from([0.1, 0.5, 0.9]))
def test_a_climb_ends_below_the_goal_or_frees_all_that_its_rungs_can(
    context: Context, policy: Policy, ladder: LadderConfig, share: float
):
    here = here_of(context, policy, ladder)
    climb = climbed(here, share, force=True)
    chosen = asyncio.run(climb.choose())
    left = here.request_tokens - freed_tokens(here, chosen.edits)
    if chosen.why.endswith("made enough room"):
        assert left <= climb.aim.goal_tokens
    elif left > climb.aim.limit_tokens or any(edit.tokens for edit in chosen.summary if edit.kind in LEAVING):
        assert leaving(chosen.summary) <= leaving(chosen.edits)
        kind = EditKind.DROP if ladder.strategy == "truncate" else EditKind.COMPRESS
        assert {edit.kind for edit in chosen.edits if edit.rule in {"summarize", "truncate"}} <= {kind}


@many
@given(contexts(), policies, ladders, st.tuples(st.floats(0, 500), st.floats(0, 500)))
def test_the_more_a_summary_must_free_beyond_what_clearing_frees_the_rarer_a_priced_climb_makes_one(
    context: Context, policy: Policy, ladder: LadderConfig, least: tuple[float, float]
):
    here = here_of(context, policy, ladder)
    climb = climbed(here, 0.5)
    made = []
    for tokens in sorted(least):
        climb.aim = replace(climb.aim, is_priced=True, summary_tokens=tokens)
        chosen = asyncio.run(climb.choose())
        made.append(not chosen.why.endswith("made enough room"))
    assert made[0] >= made[1]
