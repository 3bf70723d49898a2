"""Without an offloader: what leaves is dropped, and the context says how much and what (row A11)."""

import pytest

from ctxkit import CompressionMiddleware, HostCodec, MemoryStore, StoreOffloader
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    make_agent,
    number_of,
    orphans,
    summary_text,
    text_of,
    told,
    user,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.row("A11")]


def an_agent(*script, **settings):
    model = ScriptedModel([*script, "done"], context_size=8192, enforce="cl100k")
    return make_agent(model, **settings)


async def test_the_context_says_how_much_left_and_what_and_that_it_is_stored_nowhere():
    agent = an_agent(*fetches(25))

    await agent.reply(user("Look up 25 topics."))

    [receipt] = applied(agent)
    assert receipt.reference is None
    said = summary_text(agent)
    assert "dropped, and stored nowhere" in said
    assert "1 messages" in said
    assert "calls: fetch" in said
    assert number_of("topic-0") in said
    assert "search_context" not in said


async def test_no_recall_tool_is_offered_where_nothing_can_be_recalled():
    agent = an_agent(*fetches(25))

    await agent.reply(user("Look up 25 topics."))

    assert {tool["function"]["name"] for request in agent.model.chats for tool in request.tools} == {"fetch"}


async def test_a_shortened_result_says_how_much_was_left_out_and_promises_nothing():
    agent = an_agent(call("fetch", topic="long", size=6000))

    events = await events_of(agent.reply_stream(user("Look up a long topic.")))

    said = text_of(agent.state.context)
    assert "<<<TRUNCATED>>>" in said
    assert "The remaining content has been omitted for limited context." in said
    assert "You can refer to the file" not in said
    assert "search_context" not in said
    assert "content.shortened" in told(events)


async def test_the_agent_works_on_for_ever():
    agent = an_agent(*fetches(120))

    await agent.reply(user("Look up 120 topics."))

    assert len(applied(agent)) > 3
    assert len(agent.model.chats) == 121
    assert not any(request.refused for request in agent.model.requests)
    assert orphans(agent.state.context) == []
    assert all(receipt.problems == () for receipt in applied(agent))


async def test_a_local_store_of_the_middlewares_own_keeps_what_leaves():
    store = MemoryStore()
    agent = an_agent(*fetches(25), middlewares=[CompressionMiddleware(local_store=store)])

    await agent.reply(user("Look up 25 topics."))

    first, *_ = applied(agent)
    assert number_of("topic-0").encode() in await store.get(first.reference)
    assert "search_context" in {tool["function"]["name"] for tool in agent.model.chats[0].tools}


async def test_an_offloader_that_is_set_later_is_used_from_then_on():
    agent = an_agent(*fetches(25), "one", *fetches(25, prefix="later"))
    await agent.reply(user("Look up 25 topics."))
    store = MemoryStore()

    agent.offloader = StoreOffloader(store, HostCodec())
    await agent.reply(user("Look up 25 more."))

    first, *_, last = applied(agent)
    assert first.reference is None
    assert last.reference is not None
    assert number_of("later-0").encode() in await store.get(last.reference)
