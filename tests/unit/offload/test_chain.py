"""Plans and summaries in a store: what is written is read back, and what names messages that are missing is ignored."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import StoreReadError
from ctxkit.offload import FileStore, MemoryStore, Record, newest_summary
from ctxkit.offload.chain import CHAIN, PLAN, SUMMARY, Chain, StoredPlan, StoredSummary
from ctxkit.plan import Draft, Edit, EditKind, Plan, Reason
from ctxkit.port import Usage

EDIT = Edit(kind=EditKind.COMPRESS, message=0, message_id="m1", start=0, stop=2, tokens=90)


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


def plan(plan_id, *keys, draft="It went well."):
    made = Draft(fields={"current_state": draft}, origin="warm", usage=Usage(input_tokens=10, output_tokens=2))
    stated = Plan(id=plan_id, reason=Reason.TRIGGER, edits=(EDIT,), tokens_before=100, tokens_after=10)
    return StoredPlan(plan=stated, keys=keys, draft=made, focus="the numbers")


def summary(plan_id, *keys, digest="d", previous=None):
    return StoredSummary(plan_id=plan_id, state={"version": 1}, digest=digest, keys=keys, previous=previous)


async def put(store, *records, session_id="s"):
    await store.append(session_id, records)


def messages(*keys):
    return [Record(key=key, body=json.dumps({"id": key, "role": "user", "content": []})) for key in keys]


texts = st.text(max_size=20)


@given(
    keys=st.lists(texts, max_size=3).map(tuple),
    fields=st.dictionaries(texts, texts, max_size=3),
    focus=st.none() | texts,
    failures=st.lists(texts, max_size=2).map(tuple),
)
def test_a_plan_is_read_back_as_it_was_written(keys, fields, focus, failures):
    stored = StoredPlan(
        plan=plan("p").plan, keys=keys, draft=Draft(fields=fields, origin="staged", failures=failures), focus=focus
    )
    assert StoredPlan.from_json(json.loads(stored.record().body)) == stored


@pytest.mark.asyncio
async def test_the_newest_summary_is_the_one_whose_messages_are_all_there(store, caplog):
    await put(store, *messages("a", "b"), plan("p1", "a", "b").record(), summary("p1", "a", "b").record())
    await put(store, *messages("c"), summary("p2", "c", "lost", previous="p1").record())

    found = await newest_summary(store, "s")

    assert (found.plan_id, found.keys, found.sequence) == ("p1", ("a", "b"), 4)
    assert "'lost'" in caplog.text


@pytest.mark.asyncio
async def test_a_session_without_a_summary_has_none(store):
    await put(store, *messages("a"), plan("p1", "a").record())
    assert await newest_summary(store, "s") is None
    assert await newest_summary(store, "unknown") is None


@pytest.mark.asyncio
async def test_storing_a_plan_or_a_summary_again_adds_nothing(store):
    for _ in range(2):
        await put(store, *messages("a"), plan("p1", "a").record(), summary("p1", "a").record())
    assert [entry.kind async for entry in store.list("s")] == ["message", PLAN, SUMMARY]


@pytest.mark.asyncio
async def test_a_summary_is_found_by_the_text_that_it_is_of(store):
    await put(store, *messages("a"), summary("p1", "a", digest="d1").record(), summary("p2", "a", digest="d2").record())
    chain = await Chain.read(store, "s")

    assert (await chain.summary(digest="d1")).plan_id == "p1"
    assert await chain.summary(digest="d1", most=1) is None
    assert await chain.summary(digest="other") is None


@pytest.mark.asyncio
async def test_only_plans_behind_the_one_that_was_applied_are_open(store):
    for number in range(4):
        await put(store, *messages(f"k{number}"), plan(f"p{number}", f"k{number}").record())
    chain = await Chain.read(store, "s")

    async def open_plans(**kwargs):
        return [stored.plan.id for stored in await chain.plans(**kwargs)]

    assert await open_plans(after="p1", most=9) == ["p3", "p2"]
    assert await open_plans(after="p3", most=9) == []
    assert await open_plans(after=None, most=2) == ["p3", "p2"]
    assert await open_plans(after="long ago", most=9) == ["p3", "p2", "p1", "p0"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "body",
    [
        '{"type": "ctxkit.summary"}',
        '{"plan_id": "p", "state": 7, "digest": "d", "keys": [], "previous": null}',
        '{"plan_id": "p", "state": {}, "digest": "d", "keys": 7, "previous": null}',
        '{"keys": [[[[[' + "[" * 100_000 + "]" * 100_000 + "]]]]]}",
        '{"x": "' + "x" * (1 << 20) + '"}',
        '{"a": tru}',
    ],
    ids=["empty", "no state", "no keys", "deep", "huge", "no JSON"],
)
async def test_what_is_no_plan_or_summary_is_passed_over(body, caplog):
    store = MemoryStore()
    await put(store, *messages("a"), plan("p1", "a").record(), summary("p1", "a").record())
    await put(store, *(Record(key=kind, body=body, kind=kind) for kind in sorted(CHAIN)))

    assert (await newest_summary(store, "s")).plan_id == "p1"
    chain = await Chain.read(store, "s")
    assert [stored.plan.id for stored in await chain.plans(after=None, most=9)] == ["p1"]
    assert "is ignored" in caplog.text


@pytest.mark.asyncio
async def test_a_body_that_cannot_be_read_is_passed_over_and_a_list_that_cannot_raises():
    class Unreadable(MemoryStore):
        async def get(self, reference, offset=0, length=None):
            raise StoreReadError("input/output error")

    class Unlisted(MemoryStore):
        def list(self, session_id, *, after=0):
            raise StoreReadError("input/output error")

    store = Unreadable()
    await put(store, *messages("a"), summary("p1", "a").record())
    assert await newest_summary(store, "s") is None
    with pytest.raises(StoreReadError):
        await newest_summary(Unlisted(), "s")


@pytest.mark.asyncio
async def test_no_body_of_a_message_is_read():
    read = []

    class Watched(MemoryStore):
        async def get(self, reference, offset=0, length=None):
            read.append(await super().get(reference, offset, length))
            return read[-1]

    store = Watched()
    await put(store, *messages("a", "b"), plan("p1", "a").record(), summary("p1", "a").record())
    await newest_summary(store, "s")

    assert [json.loads(body)["type"] for body in read] == ["ctxkit.summary"]
