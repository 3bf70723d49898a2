from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.summary.stages import Unit, chunks_of, units_of
from tests.unit.fakes import FakeMsg, agent, call, hint, image, result, text, thinking, user
from tests.unit.summary.fakes import count


def test_a_call_and_its_result_are_one_unit_also_in_messages_of_their_own():
    units = list(
        units_of(
            [user("Go."), agent(call("1")), agent(call("2")), agent(result("2")), agent(result("1")), agent("Done.")]
        )
    )
    assert [
        "Go." in units[0].text,
        units[1].text.count("calls"),
        units[1].text.count("answers"),
        "Done." in units[2].text,
    ] == [True, 2, 2, True]
    assert len(units) == 3


def test_a_call_without_a_result_holds_nothing_up():
    assert len(list(units_of([agent(call("1"), "a", "b")]))) == 3


def test_every_kind_of_block_is_there_and_no_base64():
    blocks = (
        text("t_1"),
        thinking("t_2"),
        hint("t_3"),
        call("c", x="t_4"),
        result("c", [text("t_5"), image("QUJD" * 99)]),
        image(),
    )
    whole = "\n".join(unit.text for unit in units_of([agent(*blocks)]))
    assert all(f"t_{n}" in whole for n in range(1, 6))
    assert "QUJD" not in whole
    assert whole.count("image/png") == 2


def test_other_agents_keep_their_names():
    (unit,) = units_of([FakeMsg(role="user", name="bob", content=[text("hi")])])
    assert unit.text == "[user bob] hi"


@pytest.mark.parametrize("number", range(1, 24))
def test_what_whole_units_leave_of_a_call_is_no_small_last_chunk(number):
    unit = Unit(text="abc " * 26, messages=4)

    async def chunks() -> list[int]:
        each = await count(unit.text) + 1
        made = await chunks_of([unit] * number, limit_tokens=int(3.7 * each), count=count)
        return [chunk.text.count("abc") // 26 for chunk in made]

    weights = asyncio.run(chunks())
    assert len(weights) == -(-number // 3)
    assert max(weights) - min(weights) <= 1


@given(st.lists(st.text(min_size=1, max_size=3000), max_size=12), st.integers(200, 900))
def test_chunks_fit_and_hold_every_character(parts, limit):
    async def check() -> None:
        chunks = await chunks_of([Unit(text=part) for part in parts], limit_tokens=limit, count=count)
        assert all([await count(chunk.text) <= limit for chunk in chunks])
        assert "".join(chunk.text for chunk in chunks).replace("\n", "") == "".join(parts).replace("\n", "")

    asyncio.run(check())


@pytest.mark.asyncio
async def test_a_unit_in_pieces_keeps_request_and_reply_once():
    unit = Unit(text="x" * 5000, requests=("ask",), replies=("reply",))
    chunks = await chunks_of([unit], limit_tokens=300, count=count)
    assert [c.requests for c in chunks if c.requests] == [("ask",)]
    assert [c.replies for c in chunks if c.replies] == [("reply",)]


@pytest.mark.asyncio
async def test_halves_are_the_whole():
    (chunk,) = await chunks_of([Unit(text="line\n" * 50)], limit_tokens=300, count=count)
    first, second = chunk.halves()
    assert first.text + second.text == chunk.text
    assert first.text.endswith("\n")
