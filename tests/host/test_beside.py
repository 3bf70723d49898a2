"""Beside other middlewares, in both orders; one instance for several agents; assembled anew for each turn."""

import asyncio
import itertools
import re

import pytest
from agentscope.message import AssistantMsg, HintBlock, SystemMsg
from agentscope.middleware import MiddlewareBase, ReplyBudgetControlMiddleware, TracingMiddleware
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, MemoryStore
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    receipts,
    summary_text,
    text_of,
    told,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

WINDOW = 8192
ORDERS = pytest.mark.parametrize("inside", [True, False], ids=["inside of ours", "outside of ours"])


def a_model(*script, **settings) -> ScriptedModel:
    return ScriptedModel([*script, "done"], **{"context_size": WINDOW, "enforce": "cl100k", **settings})


def beside(other: MiddlewareBase, *script, inside: bool, model=None, **settings):
    """Return an agent with ctxkit's middleware and another one, in the order that is wanted."""
    ours = CompressionMiddleware()
    middlewares = [ours, other] if inside else [other, ours]
    settings = {"offloader": memory_offloader(), **settings}
    return make_agent(model or a_model(*script), middlewares=middlewares, **settings)


def check(agent, *, chats: int) -> None:
    """Check that the agent went through its script, compressing, and that no request was refused or torn."""
    assert len(applied(agent)) >= 1
    assert len(agent.model.chats) == chats
    assert not any(request.refused for request in agent.model.requests)
    assert all(orphans(request.messages) == [] for request in agent.model.chats)
    assert orphans(agent.state.context) == []


# The host's own


@ORDERS
@pytest.mark.may_block("tracing reads the environment's files")
async def test_tracing(inside):
    agent = beside(TracingMiddleware(), *fetches(25), inside=inside)

    events = await events_of(agent.reply_stream(user("Look up 25 topics.")))

    check(agent, chats=26)
    assert "compression.done" in told(events)


@ORDERS
async def test_the_reply_budget(inside):
    budget = ReplyBudgetControlMiddleware(token_budget=100_000)
    agent = beside(budget, *fetches(60), inside=inside)

    await agent.reply(user("Look up sixty topics."))

    check(agent, chats=61)
    spent = itertools.accumulate(request.input_tokens for request in agent.model.chats)
    first = next(number for number, tokens in enumerate(spent) if tokens >= 100_000) + 1
    forbidden = [number for number, request in enumerate(agent.model.chats) if request.tool_choice == "none"]
    assert forbidden[0] in {first - 1, first}  # the budget counts output tokens, too
    assert "maximum token budget" in text_of(agent.model.chats[forbidden[0]].messages)


# Hints and messages of others


class Retriever(MiddlewareBase):
    """Puts what it found into the context before each step, as RAG and memory middlewares do; may take it away again."""

    def __init__(self, size: int, *, keep: bool = True) -> None:
        self.size, self.keep, self.number = size, keep, 0

    async def on_reasoning(self, agent, input_kwargs, next_handler):
        self.number += 1
        hint = HintBlock(hint=f"Found for step {self.number}: {words(self.size, seed=str(self.number))}", source="rag")
        agent.state.append_context(agent.name, [hint])
        try:
            async for item in next_handler():
                yield item
        finally:
            if not self.keep:
                for message in agent.state.context:
                    message.content = [block for block in message.content if block.id != hint.id]


@ORDERS
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "taken away"])
async def test_a_middleware_that_injects_hints(inside, keep):
    agent = beside(Retriever(200, keep=keep), *fetches(25), inside=inside)

    await agent.reply(user("Look up 25 topics."))

    check(agent, chats=26)
    for number, request in enumerate(agent.model.chats, start=1):
        assert f"Found for step {number}:" in text_of(request.messages)


@ORDERS
async def test_a_middleware_that_injects_more_than_fits_kills_nothing(inside):
    agent = beside(Retriever(9000), *fetches(3), inside=inside)

    await agent.reply(user("Look up three topics."))

    refused = [request.refused for request in agent.model.chats]
    assert refused in ([False] * 4, [True, *[False] * 4])  # before the first usage report the estimate is only a prior
    assert "done" in text_of(agent.state.context[-1:])


class Prompter(MiddlewareBase):
    """Adds messages to each request, outside of the agent's context."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def on_model_call(self, agent, input_kwargs, next_handler):
        messages = list(input_kwargs["messages"])
        messages.insert(1, SystemMsg(name="system", content=f"Memory: {words(self.size)}"))
        return await next_handler(messages=messages)


@ORDERS
async def test_a_middleware_that_adds_messages_to_the_request(inside):
    agent = beside(Prompter(500), *fetches(25), inside=inside)

    await agent.reply(user("Look up 25 topics."))

    check(agent, chats=26)
    assert all("Memory: " in text_of(request.messages) for request in agent.model.chats)
    assert "Memory: " not in text_of(agent.state.context)


# Other models


class Router(MiddlewareBase):
    """Gives the agent another model for each reply, as ModelRouterMiddleware does."""

    def __init__(self, *models):
        self.models = list(models)

    async def on_reply(self, agent, input_kwargs, next_handler):
        original, agent.model = agent.model, self.models.pop(0)
        try:
            async for item in next_handler():
                yield item
        finally:
            agent.model = original


@ORDERS
async def test_a_router_that_swaps_the_model_for_each_reply(inside):
    large = a_model(*fetches(25), context_size=32768, model="large")
    small = a_model(*fetches(5, prefix="more"), model="small")
    agent = beside(Router(large, small), inside=inside)

    await agent.reply(user("Look up 25 topics."))
    before = len(applied(agent))
    await agent.reply(user("Look up five more."))

    assert (before, len(applied(agent))) == (0, 1)
    assert (len(large.chats), len(small.chats)) == (26, 6)
    assert not any(request.refused for request in [*large.requests, *small.requests])
    assert agent.model.requests == []


async def test_a_model_that_is_swapped_in_the_middle_of_a_reply_is_asked_for_its_own_window():
    class Downgrade(MiddlewareBase):
        async def on_acting(self, agent, input_kwargs, next_handler):
            async for chunk in next_handler():
                yield chunk
            if len(large.chats) == 20:
                agent.model = small

    large = a_model(*fetches(30), context_size=32768, model="large")
    small = a_model(*fetches(10, prefix="more"), model="small")
    agent = beside(Downgrade(), inside=True, model=large)

    await agent.reply(user("Look up thirty topics."))

    assert (len(large.chats), len(small.chats)) == (20, 11)
    assert [receipt.limit_tokens for receipt in applied(agent)] == [int(0.8 * WINDOW)] * len(applied(agent))
    assert applied(agent)
    assert not any(request.refused for request in small.requests)


# Several of ours, several agents


async def test_two_compression_middlewares_compress_once():
    first, second = CompressionMiddleware(), CompressionMiddleware()
    agent = make_agent(a_model(*fetches(25)), middlewares=[first, second], offloader=memory_offloader())

    events = await events_of(agent.reply_stream(user("Look up 25 topics.")))
    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.15, reserve_ratio=0.05))

    *automatic, by_hand = applied(agent)
    done = [event.value["plan_id"] for event in events if getattr(event, "name", "") == "ctxkit.compression.done"]
    assert done == [receipt.plan_id for receipt in automatic]
    assert automatic
    assert by_hand.reason == "manual"
    assert second.receipts(agent) == ()
    assert orphans(agent.state.context) == []


async def test_one_instance_serves_two_agents_apart():
    shared = CompressionMiddleware()
    toolkit = Toolkit(tools=[FunctionTool(fetch, is_read_only=True)])
    agents = []
    for name in ("ann", "ben"):
        script = [*fetches(25, prefix=name), call("search_context", query=number_of(f"{name}-3")), "done"]
        agent = make_agent(a_model(*script), name=name, middlewares=[shared], offloader=memory_offloader())
        agent.toolkit = toolkit
        agents.append(agent)
    ann, ben = agents

    await ann.reply(user("Look up Ann's topics."))
    await ben.reply(user("Look up Ben's topics."))

    for agent, other in ((ann, "ben"), (ben, "ann")):
        check(agent, chats=27)
        assert number_of(f"{agent.name}-3") in text_of(agent.state.context)
        assert f"{other}-3" not in text_of(agent.state.context) + summary_text(agent)
    assert {receipt.plan_id for receipt in receipts(ann)}.isdisjoint({receipt.plan_id for receipt in receipts(ben)})


async def test_two_agents_of_one_instance_compress_at_the_same_time():
    shared = CompressionMiddleware()
    agents = [
        make_agent(a_model(*fetches(40, prefix=name)), name=name, middlewares=[shared], offloader=memory_offloader())
        for name in ("ann", "ben", "cat")
    ]

    await asyncio.gather(*(agent.reply(user("Look up forty topics.")) for agent in agents))

    for agent in agents:
        check(agent, chats=41)


# A new agent and a new middleware for each turn, as AgentScope's service makes them


@pytest.mark.row("X19")
async def test_an_agent_that_is_assembled_anew_for_each_turn_goes_on_where_it_was():
    store, offloader = MemoryStore(), memory_offloader()
    saved = AgentState().model_dump_json()
    compressed, requests, session = 0, [], AgentState.model_validate_json(saved).session_id
    for turn in range(5):
        model = a_model(*fetches(18, prefix=f"turn-{turn}"), f"Turn {turn} is done.")
        agent = make_agent(
            model,
            middlewares=[CompressionMiddleware(local_store=store)],
            offloader=offloader,
            state=AgentState.model_validate_json(saved),
        )
        await agent.reply(user(f"Demand {turn}: you must always say {number_of(f'demand-{turn}')}."))
        compressed += len(applied(agent))
        requests.extend(model.requests)
        assert orphans(agent.state.context) == []
        saved = agent.state.model_dump_json()

    assert compressed >= 3
    assert not any(request.refused for request in requests)
    assert all(number_of(f"demand-{turn}") in text_of(model.chats[-1].messages) for turn in range(5))
    assert re.findall(r"- Parts? .*?(\d+):", agent.state.summary[0].text)[-1] == str(compressed)
    assert len(saved) < 400_000
    assert len(str(agent.state.middle_context["ctxkit"]).encode()) < 64_000
    stored = [entry async for entry in offloader.store.list(session) if entry.kind != "blob"]  # blobs go by name
    assert len({entry.key for entry in stored}) == len(stored)


@pytest.mark.row("X19")
async def test_a_new_agent_reads_back_what_an_earlier_one_stored():
    offloader, saved = memory_offloader(), AgentState().model_dump_json()
    first = make_agent(a_model(*fetches(25)), offloader=offloader, state=AgentState.model_validate_json(saved))
    await first.reply(user("Look up 25 topics."))
    asked = call("search_context", query=number_of("topic-0"))

    second = make_agent(
        a_model(asked), offloader=offloader, state=AgentState.model_validate_json(first.state.model_dump_json())
    )
    await second.reply(user("What was the first?"))

    assert f"Report on topic-0: its number is {number_of('topic-0')}" in text_of(second.state.context)


async def test_another_agents_observations_are_compressed_like_ones_own():
    agent = beside(MiddlewareBase(), inside=True)
    agent.state.context.extend(history(5))
    for number in range(40):
        await agent.observe(AssistantMsg(name="bob", content=f"Bob {number}: {words(150, seed=str(number))}"))

    await agent.reply(user("What did Bob say?"))

    check(agent, chats=1)
