"""One pass of the ladder: edits of all rungs that do not get in each other's way."""

from __future__ import annotations

from collections import Counter

import pytest

from ctxkit.engine.apply import apply_edits
from ctxkit.invariants import broken_rules
from ctxkit.plan import Edit, EditKind
from ctxkit.strategies.ladder import freed_tokens, leaving, lighter, plan_ladder, shorten_more
from ctxkit.view import Place, View
from tests.unit.fakes import FakeCodec, agent, call, image, result, settings, situation, text, user, watched

BIG = "x" * 500


def named(edits: tuple[Edit, ...]) -> list[tuple[EditKind, int, int, int]]:
    return [(edit.kind, edit.message, edit.start, edit.keep_tokens) for edit in edits]


def test_without_a_budget_nothing_leaves():
    here = situation(user("old"), agent(BIG), user("do"))
    assert named(plan_ladder(here, keep_tokens=None)) == [(EditKind.TRUNCATE, 1, 0, 250)]


def test_a_context_within_all_limits_needs_no_edit():
    here = situation(user("old"), agent("ok"), user("do"))
    assert plan_ladder(here, keep_tokens=None) == plan_ladder(here, keep_tokens=1000) == ()


def test_what_leaves_is_not_shortened_as_well():
    here = situation(agent(BIG, image()), agent(BIG), user("do"), agent("x" * 300), config=settings(max_image_num=0))
    assert named(plan_ladder(here, keep_tokens=250)) == [
        (EditKind.TRUNCATE, 3, 0, 250),
        (EditKind.COMPRESS, 0, 0, 0),
        (EditKind.COMPRESS, 1, 0, 0),
    ]


def test_what_stays_is_weighed_as_it_will_be_and_what_leaves_as_it_was():
    here = situation(agent(BIG), agent("y" * 50), agent(BIG), user("do"))
    edits = plan_ladder(here, keep_tokens=310)
    assert named(edits) == [(EditKind.TRUNCATE, 2, 0, 250), (EditKind.COMPRESS, 0, 0, 0)]
    assert edits[-1].tokens == 500


def test_more_shortening_lowers_what_was_cut_before():
    here = situation(agent(BIG, "y" * 200), user("do"))
    edits = shorten_more(here, plan_ladder(here, keep_tokens=None), free_tokens=150)
    assert named(edits) == [(EditKind.TRUNCATE, 0, 0, 150), (EditKind.TRUNCATE, 0, 1, 150)]
    assert freed_tokens(here, edits) == 400
    assert edits[0].tokens == 500


def test_more_shortening_takes_an_oversized_request_to_its_budget_and_no_further():
    here = situation(agent("y" * 300), user(BIG))
    assert named(shorten_more(here, (), free_tokens=10_000)) == [
        (EditKind.TRUNCATE, 0, 0, 48),
        (EditKind.TRUNCATE, 1, 0, 250),
    ]


def test_more_shortening_of_nothing_leaves_the_edits_as_they_are():
    here = situation(agent(BIG), user("do"))
    edits = plan_ladder(here, keep_tokens=0)
    assert shorten_more(here, edits, free_tokens=0) == shorten_more(here, edits, free_tokens=-5) == edits


def test_no_two_edits_name_the_same_block():
    block = result("a", [text(BIG), image(), image()])
    here = situation(agent(call("a"), block), user("do"), config=settings(max_image_num=0))
    edits = shorten_more(here, plan_ladder(here, keep_tokens=None), free_tokens=100)
    assert named(edits) == [(EditKind.TRUNCATE, 0, 1, 150)]


def test_a_drop_leaves_like_a_compression():
    here = situation(agent("old"), user("do"))
    edits = plan_ladder(here, keep_tokens=0, kind=EditKind.DROP)
    assert leaving(edits) == {Place(0, 0)}
    assert freed_tokens(here, edits) == 3


def test_what_an_image_note_frees_is_not_counted_on():
    here = situation(user(image()), config=settings(max_image_num=0))
    edits = plan_ladder(here, keep_tokens=None)
    assert (named(edits), freed_tokens(here, edits)) == ([(EditKind.IMAGE, 0, 0, 0)], 0)


def test_a_situation_without_shortening_is_not_copied():
    here = situation(agent("old"), user("do"))
    assert lighter(here, plan_ladder(here, keep_tokens=0)) is here


def reads_of(messages: int, steps: int) -> int:
    reads: Counter[str] = Counter()
    here = situation(*watched(messages, steps, reads), user("do"), agent("ok"))
    reads.clear()
    edits = shorten_more(here, plan_ladder(here, keep_tokens=3 * messages * steps), free_tokens=10)
    after = View(apply_edits(here.view, edits, {}, FakeCodec()), agent_name="agent")
    assert broken_rules(here.view, after, tokens_before=2, tokens_after=1) == ()
    return reads.total()


@pytest.mark.parametrize(("small", "large"), [((1, 2000), (1, 8000)), ((2000, 1), (8000, 1))])
def test_the_work_of_a_plan_grows_with_the_context_and_no_faster(small: tuple[int, int], large: tuple[int, int]):
    assert reads_of(*large) <= 4 * reads_of(*small) + 100
