"""Only what is new in a context is looked at, and a context that was swapped is new as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ctxkit.engine.arrivals import Arrivals
from ctxkit.view import Place
from tests.unit.fakes import FakeMsg, agent, text, user


def new(arrivals: Arrivals, context: list[FakeMsg]) -> list[Place]:
    return [place for place, _ in arrivals.new(context)]


def looked(context: list[FakeMsg]) -> Arrivals:
    arrivals = Arrivals()
    arrivals.looked(context)
    return arrivals


def test_at_first_all_is_new():
    context = [user("a", "b"), agent("c")]
    assert Arrivals().is_all_new(context)
    assert new(Arrivals(), context) == [(0, 0), (0, 1), (1, 0)]


def test_nothing_is_new_twice():
    context = [user("a")]
    assert new(looked(context), context) == []
    assert not looked(context).is_all_new(context)


def test_blocks_and_messages_at_the_end_are_new():
    context = [user("a"), agent("b")]
    arrivals = looked(context)
    context[-1].content.append(text("c"))
    context.append(user("d", "e"))
    assert new(arrivals, context) == [(1, 1), (2, 0), (2, 1)]
    assert not arrivals.is_all_new(context)


def test_what_comes_into_an_empty_context_is_new():
    context: list[FakeMsg] = []
    arrivals = looked(context)
    context.append(user("a"))
    assert new(arrivals, context) == [(0, 0)]


def test_another_list_is_new_as_a_whole_even_with_the_same_messages():
    context = [user("a"), agent("b")]
    swapped = list(context)
    arrivals = looked(context)
    assert arrivals.is_all_new(swapped)
    assert new(arrivals, swapped) == [(0, 0), (1, 0)]


def test_a_list_that_lost_its_last_message_or_blocks_of_it_is_new_as_a_whole():
    shrunk, replaced, emptied = ([user("a"), agent("b")] for _ in range(3))
    watching = [looked(context) for context in (shrunk, replaced, emptied)]
    shrunk.pop()
    replaced[-1] = agent("b")
    emptied[-1].content.clear()
    assert all(a.is_all_new(c) for a, c in zip(watching, (shrunk, replaced, emptied), strict=True))


@given(st.lists(st.integers(0, 3), max_size=12))
def test_every_block_is_looked_at_once_however_a_context_grows(growth: list[int]):
    context: list[FakeMsg] = []
    arrivals = Arrivals()
    seen: list[str] = []
    for count in growth:
        if count == 0 or not context:
            context.append(agent())
        context[-1].content.extend(text("x") for _ in range(count))
        seen += [block.id for _, block in arrivals.new(context)]
        arrivals.looked(context)
    assert seen == [block.id for message in context for block in message.content]
