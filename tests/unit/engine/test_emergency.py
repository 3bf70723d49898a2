"""What an emergency cuts and leaves out of one request, oldest first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import LadderConfig, OverflowConfig
from ctxkit.engine.emergency import plan_emergency
from ctxkit.plan import EditKind
from ctxkit.strategies.ladder import freed_tokens
from tests.unit.fakes import agent, settings, situation, user


def talk(sizes, *, keep=10, share=0.5):
    """Return a situation of messages of these sizes, the user's and the agent's in turn."""
    config = replace(
        settings(ladder=LadderConfig(keep_messages=keep)), overflow=OverflowConfig(keep_messages_ratio=share)
    )
    messages = [
        (user if n % 2 == len(sizes) % 2 else agent)(f"{n:03} {'x' * (size - 4)}") for n, size in enumerate(sizes, 1)
    ]
    return situation(*messages, context_size=100_000, config=config)


def left(here, edits):
    gone = {edit.message for edit in edits if edit.kind is EditKind.DROP}
    return [index for index in range(len(here.view)) if index not in gone]


@pytest.mark.parametrize(("keep", "share", "stay"), [(10, 0.5, 5), (7, 0.5, 3), (6, 0.25, 1), (1, 0.5, 1)])
def test_so_many_of_the_newest_messages_stay_whole_where_that_is_enough(keep, share, stay):
    here = talk([500] * 20, keep=keep, share=share)

    edits = plan_emergency(here, 6_000)

    assert left(here, edits) == list(range(20 - stay, 20))
    assert {edit.kind for edit in edits} == {EditKind.DROP}


def test_what_is_oversized_among_those_that_stay_is_cut_and_the_others_are_not():
    here = talk([500] * 8 + [20_000, 500])

    edits = plan_emergency(here, 4_000)

    assert left(here, edits) == [5, 6, 7, 8, 9]
    assert [edit.message for edit in edits if edit.kind is EditKind.TRUNCATE] == [8]
    assert here.request_tokens - freed_tokens(here, edits) <= 4_000


def test_without_a_number_of_messages_big_blocks_are_cut_before_messages_go():
    here = talk([500] * 19 + [100], share=None)

    edits = plan_emergency(here, 6_000)

    assert {edit.kind for edit in edits} == {EditKind.TRUNCATE}


@given(
    sizes=st.lists(st.integers(10, 5_000), min_size=1, max_size=30),
    keep=st.integers(0, 12),
    share=st.none() | st.sampled_from([0.25, 0.5, 1.0]),
    target=st.integers(1_000, 20_000),
)
def test_no_message_is_named_twice_and_the_newest_request_stays(sizes, keep, share, target):
    here = talk(sizes, keep=keep, share=share)

    edits = plan_emergency(here, target)

    assert len({(edit.message, edit.start) for edit in edits}) == len(edits)
    assert len(sizes) - 1 in left(here, edits)
