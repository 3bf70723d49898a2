from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import SummaryConfig
from ctxkit.ledger import Ledger
from ctxkit.summary import Stub, SummaryState, UserRequest, render, shortened
from tests.unit.fakes import agent, call, result, user
from tests.unit.summary.fakes import FIELDS, count
from tests.unit.summary.test_state import states

TEMPLATE = "<system-info>{task_overview}|{current_state}|{important_discoveries}|{next_steps}|{context_to_preserve}</system-info>"


async def shown(state, budget=3000, template=TEMPLATE, **more):
    return await render(state, template=template, budget_tokens=budget, config=SummaryConfig(), count=count, **more)


async def full_state():
    messages = (
        user("Fix the parser. Never touch prod."),
        agent(call("1", "Edit", path="src/parser.py"), result("1", "ticket: 445566"), "done with parse_it"),
        user("Only then the lexer."),
    )
    return replace(await SummaryState().absorb(messages, tokens=900, reference="/w/c.jsonl"), fields=FIELDS)


@pytest.mark.asyncio
async def test_stubs_come_first_then_users_words_then_the_ledger_and_the_state_last():
    stubs, users, ledger, fields = await shown(await full_state())
    assert "Part 1: 3 messages, 900 tokens" in stubs
    assert "search_context" in stubs
    assert "- Fix the parser. Never touch prod.\n- Only then the lexer." in users
    assert "src/parser.py" in ledger
    assert fields == TEMPLATE.format(**FIELDS)


@pytest.mark.asyncio
async def test_the_same_state_gives_the_same_texts():
    assert await shown(await full_state(), 500) == await shown(await full_state(), 500)


@pytest.mark.asyncio
async def test_another_compression_leaves_the_earlier_bytes_of_the_stubs():
    state = await full_state()
    for _ in range(5):
        before = (await shown(state))[0]
        state = await state.absorb([agent("more")], tokens=5, reference="/w/c.jsonl")
        assert (await shown(state))[0].startswith(before)


@pytest.mark.asyncio
async def test_too_many_stubs_are_rolled_up_and_the_text_changes_at_every_eighth_only():
    changes = 0
    before = ""
    for n in range(1, 65):
        state = SummaryState(
            stubs=tuple(Stub(first=k, last=k, messages=3, tokens=9, references=("/w/c",)) for k in range(1, n + 1))
        )
        (text,) = await shown(state, 2400)
        changes += not text.startswith(before)
        before = text
        assert f"{n}: 3 messages" in text or f"to {n}:" in text
    assert 1 <= changes <= 8


@pytest.mark.asyncio
async def test_constraints_of_requests_that_are_gone_stay_verbatim():
    state = await full_state()
    state = replace(state, users=tuple(UserRequest(id=str(n), text=f"Go on, {n}. " + "x " * 300) for n in range(30)))
    users = (await shown(state, 1500))[1]
    assert "# What the user demands (verbatim)\n- Never touch prod.\n- Only then the lexer." in users
    assert "Go on, 29." in users
    assert "Go on, 0." in users
    assert "Go on, 15." not in users


@pytest.mark.asyncio
async def test_where_not_all_constraints_fit_those_that_leave_no_choice_are_shown():
    wishes = tuple(f"The part number {n} should be looked at with some care." for n in range(60))
    (users,) = await shown(SummaryState(ledger=Ledger(constraints=("Never touch prod.", *wishes))), 900)
    assert "- Never touch prod.\n" in users
    assert wishes[-1] in users
    assert wishes[0] not in users


@pytest.mark.asyncio
async def test_a_constraint_that_stands_in_a_request_is_not_said_twice():
    users = (await shown(await full_state()))[1]
    assert users.count("Never touch prod.") == 1


@pytest.mark.asyncio
async def test_an_over_long_request_keeps_head_and_tail_and_names_its_reference():
    request = UserRequest(id="1", text="Start. " + "x " * 1900 + "The end.", reference="/w/c.jsonl")
    (users,) = await shown(SummaryState(users=(request,)), 900)
    assert "Start. " in users
    assert "The end." in users
    assert "all of it is stored in '/w/c.jsonl'" in users


@pytest.mark.asyncio
async def test_a_template_that_fields_do_not_fit_shows_them_all_the_same():
    state = SummaryState(fields={"own": "words"})
    assert await shown(state) == ["# own\nwords"]


@pytest.mark.asyncio
async def test_notes_stand_with_the_fields():
    state = SummaryState(fields=FIELDS, notes=("Made without a model.",))
    assert (await shown(state))[-1].startswith("Made without a model.\n<system-info>")


@pytest.mark.asyncio
async def test_a_long_note_does_not_push_the_fields_out():
    state = SummaryState(fields=FIELDS, notes=("An earlier summary said: " + "word " * 2000,))
    assert "Fix the parser." in (await shown(state, 400))[-1]


@pytest.mark.asyncio
async def test_long_fields_are_shortened_where_the_budget_is_small():
    state = replace(await full_state(), fields={**FIELDS, "current_state": "word " * 2000})
    texts = await shown(state, 600)
    assert "Fix the parser." in texts[-1]
    assert "[...]" in texts[-1]


@given(states, st.integers(0, 4000))
def test_the_texts_never_exceed_their_budget(state, budget):
    async def check() -> None:
        assert sum([await count(text) for text in await shown(state, budget)]) <= max(budget, 0)

    asyncio.run(check())


@given(st.text(max_size=2000), st.integers(-1, 200))
def test_a_shortened_text_fits(text, limit):
    async def check() -> None:
        short = await shortened(text, limit, count, reference="/w/c")
        assert await count(short) <= max(limit, 0)
        assert short in (text, "") or "characters left out" in short

    asyncio.run(check())
