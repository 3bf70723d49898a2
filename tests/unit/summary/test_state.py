from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.ledger import Ledger
from ctxkit.summary import Stub, SummaryState, UserRequest, requests_of
from tests.unit.fakes import agent, call, hint, result, user
from tests.unit.summary.fakes import FIELDS

PART = (
    user("Fix it. Never use tabs."),
    agent(call("1", "Read", path="a.py"), result("1"), call("2", "Read"), result("2"), "ok"),
)


@pytest.mark.asyncio
async def test_a_compression_adds_one_stub_the_requests_and_the_facts():
    state = await SummaryState().absorb(PART, tokens=123, reference="/w/context.jsonl")
    (stub,) = state.stubs
    assert stub.text == (
        "Part 1: 2 messages, 123 tokens (from 2026-01-01T00:00; calls: Read 2x), stored in '/w/context.jsonl'; "
        "search_context finds, read_context reads what it says."
    )
    assert state.users == (UserRequest(id=PART[0].id, text="Fix it. Never use tabs.", reference="/w/context.jsonl"),)
    assert state.ledger.files == {"a.py": "read"}
    assert state.ledger.constraints == ("Never use tabs.",)


@pytest.mark.asyncio
async def test_without_a_store_the_stub_says_how_much_was_dropped():
    state = await SummaryState().absorb(PART, tokens=123, reference=None)
    assert state.stubs[0].text.endswith(
        "2 messages, 123 tokens (from 2026-01-01T00:00; calls: Read 2x), dropped, and stored nowhere."
    )


@pytest.mark.asyncio
async def test_the_same_message_twice_is_one_request():
    state = await SummaryState().absorb(PART, tokens=1, reference=None)
    assert len((await state.absorb(PART, tokens=1, reference="r")).users) == 1


@pytest.mark.asyncio
async def test_stubs_are_numbered_on():
    state = SummaryState()
    for _ in range(3):
        state = await state.absorb(PART, tokens=1, reference=None)
    assert [(s.first, s.last) for s in state.stubs] == [(1, 1), (2, 2), (3, 3)]


def test_a_hint_or_a_reminder_is_no_request():
    messages = [
        user(hint("obey")),
        user("<system-reminder>time</system-reminder>"),
        user("<system-reminder>x</system-reminder>Go on."),
    ]
    assert [request.text for request in requests_of(messages)] == ["Go on."]


def test_a_huge_request_keeps_head_and_tail_and_names_where_all_of_it_is():
    (request,) = requests_of([user("start " + "x" * 50_000 + " end")], reference="/w/c.jsonl")
    assert request.text.startswith("start ")
    assert request.text.endswith(" end")
    assert "characters left out; all of it is stored in '/w/c.jsonl'" in request.text
    assert len(request.text) < 4200


@pytest.mark.asyncio
async def test_a_state_survives_a_round_trip_through_json():
    state = await SummaryState(fields=FIELDS, notes=("by code",)).absorb(PART, tokens=5, reference="r")
    assert SummaryState.from_json(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize(
    "junk",
    [
        None,
        3,
        [],
        {},
        {"version": 0},
        {"version": 1, "stubs": [1, {"first": "x"}], "users": [{}, {"id": 1}], "fields": 3, "notes": {}, "ledger": []},
    ],
)
def test_junk_gives_an_empty_state(junk):
    assert SummaryState.from_json(junk) == SummaryState()


texts = st.text(max_size=3000)
states = st.builds(
    lambda users, stubs, fields, notes: SummaryState(
        users=tuple(UserRequest(id=str(n), text=t) for n, t in enumerate(users)),
        stubs=tuple(Stub(first=n + 1, last=n + 1, messages=n, tokens=n, references=(f"/w/{n}",)) for n in range(stubs)),
        fields=dict(zip(FIELDS, fields, strict=False)),
        notes=tuple(notes),
        ledger=Ledger(constraints=tuple(users)),
    ),
    st.lists(texts, max_size=30),
    st.integers(0, 120),
    st.lists(st.text(max_size=9000), max_size=5),
    st.lists(texts, max_size=5),
)


@given(states)
def test_the_json_stays_within_its_bound(state):
    size = len(json.dumps(state.to_json(), ensure_ascii=False).encode("utf-8", "replace"))
    assert size <= 48_500


@given(states)
def test_what_was_trimmed_once_stays_as_it_is(state):
    once = state.to_json()
    assert SummaryState.from_json(json.loads(json.dumps(once))).to_json() == once


def test_the_json_stays_within_its_bound_at_worst():
    state = SummaryState(
        users=tuple(UserRequest(id=str(n), text="字" * 9000) for n in range(30)),
        stubs=tuple(
            Stub(first=n, last=n, messages=1, tokens=1, references=(f"/w/{n}/" + "字" * 200,)) for n in range(200)
        ),
        fields=dict.fromkeys(FIELDS, "字" * 20_000),
        notes=("字" * 9000,) * 5,
        ledger=Ledger(constraints=("字" * 400,) * 80, errors=("字" * 160,) * 24),
    )
    assert len(json.dumps(state.to_json(), ensure_ascii=False).encode()) <= 48_500


def test_the_first_and_the_newest_requests_outlast_the_others():
    users = tuple(UserRequest(id=str(n), text=f"request {n} " + "x" * 900) for n in range(40))
    kept = [user["id"] for user in SummaryState(users=users).to_json()["users"]]
    assert (kept[0], kept[-1]) == ("0", "39")
    assert kept[1:] == [str(n) for n in range(40 - len(kept) + 1, 40)]


def test_merged_stubs_say_all_that_they_stand_for():
    stubs = tuple(Stub(first=n, last=n, messages=2, tokens=10, references=("/w/c",)) for n in range(1, 301))
    state = SummaryState.from_json(SummaryState(stubs=stubs).to_json())
    assert sum(stub.messages for stub in state.stubs) == 600
    assert (state.stubs[0].first, state.stubs[-1].last) == (1, 300)
    assert state.stubs[0].text.startswith("Parts 1 to ")


def test_merged_stubs_name_the_first_and_the_newest_places():
    stubs = tuple(Stub(first=n, last=n, messages=1, tokens=1, references=(f"/w/{n}",)) for n in range(1, 9))
    merged = stubs[0]
    for stub in stubs[1:]:
        merged = merged.merged(stub)
    assert "stored in '/w/1', '/w/6', '/w/7', '/w/8' and 4 other places; search_context finds" in merged.text
