"""Which blocks are shortened, and how far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.plan import EditKind
from ctxkit.strategies import AdmissionStrategy, ShortenStrategy, Situation
from ctxkit.strategies.shorten import SMALLEST_TOKENS, common_level, is_admitted
from ctxkit.view import Place
from tests.unit.fakes import FakeHint, FakeResult, agent, call, hint, image, result, settings, situation, thinking, user

BIG = "x" * 500
"""Twice the limit of a paste in the tests' window."""


def admitted(here: Situation) -> dict[Place, int]:
    return {Place(edit.message, edit.start): edit.keep_tokens for edit in AdmissionStrategy().plan_edits(here)}


def shortened(here: Situation, free: float, **options: object) -> dict[Place, int]:
    edits = ShortenStrategy(free_tokens=free, **options).plan_edits(here)  # type: ignore[arg-type]  # as the tests give them
    return {Place(edit.message, edit.start): edit.keep_tokens for edit in edits}


class TestAdmission:
    def test_each_kind_of_block_over_its_limit_is_cut_to_it(self):
        here = situation(
            user("old"),
            agent(BIG, hint(BIG), call("a", text=BIG), result("a", BIG)),
            user(BIG),
            config=settings(tool_result_limit=100),
        )
        assert admitted(here) == {(1, 0): 250, (1, 1): 250, (1, 2): 250, (1, 3): 100, (2, 0): 250}

    def test_what_may_not_be_changed_is_left(self):
        here = situation(user("do"), agent(thinking(BIG), image(), call("a", text=BIG)))
        here.tokens[1][1] = 5000
        assert admitted(here) == {}

    def test_a_result_that_was_admitted_or_is_excluded_is_cut_only_where_it_exceeds_the_window(self):
        done = FakeResult(id="a", output=BIG, metadata={"ctxkit": {"admitted": True}})
        excluded = result("b", BIG, name="free")
        config = settings(exclude_tools=frozenset({"free"}))
        here = situation(agent(call("a"), done, call("b"), excluded, "ok"), config=config)
        assert admitted(here) == {}
        here.tokens[0][1] = here.tokens[0][3] = 2000
        assert admitted(here) == {(0, 1): 1000, (0, 3): 1000}

    def test_a_newest_request_whose_parts_together_exceed_its_budget_is_cut_to_the_budget(self):
        here = situation(user("old"), agent("ok"), user("a" * 200, "b" * 200), user("c" * 30))
        assert admitted(here) == {(2, 0): 110, (2, 1): 110}

    def test_a_newest_request_within_its_budget_stays_verbatim(self):
        assert admitted(situation(user("a" * 125, "b" * 125))) == {}


class TestShorten:
    def test_the_largest_blocks_are_lowered_to_one_level(self):
        here = situation(user("do"), agent("x" * 100, "x" * 300, "x" * 400))
        assert shortened(here, 300) == {(1, 1): 200, (1, 2): 200}

    def test_nothing_is_done_where_nothing_is_to_be_freed(self):
        here = situation(user("do"), agent("x" * 300))
        here.tokens[1][0] = 300.7
        assert shortened(here, 0) == shortened(here, -5) == {}

    def test_no_block_is_cut_below_the_floor(self):
        here = situation(user("do"), agent("x" * 100, "x" * 40))
        assert shortened(here, 1e9) == {(1, 0): SMALLEST_TOKENS}
        assert shortened(here, 1e9, floor_tokens=90) == {(1, 0): 90}

    def test_thinking_images_unfinished_calls_and_the_newest_request_are_left_however_large(self):
        here = situation(user(BIG), agent(thinking(BIG), image(), call("a", text=BIG), reply_id="r"), reply_id="r")
        assert shortened(here, 1e9) == {}

    def test_the_arguments_of_a_call_without_a_result_that_will_never_run_may_be_cut(self):
        here = situation(agent(call("a", text=BIG)), user("again"), agent("ok"))
        assert shortened(here, 1e9) == {(0, 0): SMALLEST_TOKENS}

    def test_blocks_that_leave_anyway_are_not_counted_on(self):
        here = situation(agent("x" * 400, "x" * 100), user("do"))
        assert shortened(here, 20, before=frozenset({Place(0, 0)})) == {(0, 1): 80}

    def test_a_hint_made_of_pieces_may_be_cut(self):
        pieces = FakeHint(hint=[*user(BIG).content, image()])
        assert shortened(situation(agent(pieces), user("do")), 100) == {(0, 0): 500}

    def test_edits_name_their_message_and_what_stood_there(self):
        message = agent("x" * 100)
        [edit] = ShortenStrategy(free_tokens=10).plan_edits(situation(message, user("do")))
        assert (edit.kind, edit.message_id, edit.start, edit.stop, edit.tokens) == (
            EditKind.TRUNCATE,
            message.id,
            0,
            1,
            100,
        )


sizes = st.lists(st.integers(0, 5000).map(float) | st.floats(0, 5000), max_size=12)


@given(sizes, st.floats(0.01, 20_000), st.integers(0, 200))
def test_a_common_level_frees_what_is_asked_where_the_floor_allows_it(sizes: list[float], free: float, floor: int):
    level = common_level(sizes, free, floor)
    possible = sum(max(0.0, size - floor) for size in sizes)
    freed = sum(max(0.0, size - level) for size in sizes)
    assert level >= floor
    assert freed >= min(free, possible) - 1e-6


@given(sizes, st.floats(0.01, 20_000), st.integers(0, 200))
def test_a_common_level_is_the_highest_that_frees_what_is_asked(sizes: list[float], free: float, floor: int):
    level = common_level(sizes, free, floor)
    assert level == floor or sum(max(0.0, size - (level + 1)) for size in sizes) < free + 1e-6


@pytest.mark.parametrize("metadata", [{}, {"ctxkit": "admitted"}, {"ctxkit": {"shortened": True}}])
def test_a_result_counts_as_admitted_only_by_its_mark(metadata: dict[str, object]):
    assert not is_admitted(FakeResult(id="a", metadata=metadata))
    assert is_admitted(FakeResult(id="a", metadata={"ctxkit": {"admitted": True}}))
    assert not is_admitted(hint())
