"""What a plug-in that rewrites an agent's state owes the host (research on the host, section 6), a test a line."""

import asyncio
import copy
import inspect
from pathlib import Path

import pytest
from agentscope.agent import Agent, InjectionConfig
from agentscope.event import ReplyEndEvent
from agentscope.message import AssistantMsg, HintBlock, Msg, TextBlock, ToolResultBlock
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionMode
from agentscope.tool import Edit, Read
from pydantic import BaseModel

from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.testing import ScriptedModel, call, plain_summary
from tests.host.agents import (
    applied,
    events_of,
    exchange,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    receipts,
    summary_text,
    text_of,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

WINDOW = 8192
LOW = ContextConfig(trigger_ratio=0.2, reserve_ratio=0.1)


def an_agent(*script, turns=0, model=None, **settings):
    model = model or ScriptedModel([*script, "done"], context_size=WINDOW, enforce="cl100k")
    agent = make_agent(model, **{"offloader": memory_offloader(), **settings})
    agent.state.context.extend(history(turns))
    return agent


class Gate:
    """A summary that waits until it is told to go on, and tells when it is asked for."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, messages):
        self.asked.set()
        await self.open.wait()
        return plain_summary()


def gated(*script):
    gate = Gate()
    return gate, ScriptedModel([*script, "done"], context_size=WINDOW, enforce="cl100k", summaries=gate)


# 1. The running reply's message stays the last one


async def test_the_running_replys_message_stays_the_last_one_at_every_event():
    agent = an_agent(*fetches(40), turns=8)
    wrong = []

    async for _ in agent.reply_stream(user("Look up forty topics.")):
        tail = agent.state.context[-1]
        if any(message.id == agent.state.reply_id for message in agent.state.context) and (
            (tail.role, tail.name, tail.id) != ("assistant", "scribe", agent.state.reply_id)
        ):
            wrong.append(tail)

    assert len(applied(agent)) >= 2
    assert wrong == []


# 2. Every result has its call


async def test_no_request_and_no_context_ever_has_an_orphan():
    agent = an_agent(*fetches(60, size=250))

    await agent.reply(user("Look up sixty topics."))

    assert len(applied(agent)) >= 2
    assert [orphans(request.messages) for request in agent.model.chats] == [[]] * 61
    assert orphans(agent.state.context) == []


# 3. Cuts stand at step boundaries


async def test_what_is_kept_of_a_reply_begins_with_a_step():
    steps = [[TextBlock(text=f"Now topic {i}."), each] for i, each in enumerate(fetches(40))]
    agent = an_agent(*steps)

    await agent.reply(user("Look up forty topics."))

    assert applied(agent)
    kept = [block.type for block in agent.state.context[-1].content if block.type != "hint"]
    assert kept[:3] == ["text", "tool_call", "tool_result"]


# 4. The usage of the running reply is kept


async def test_the_final_messages_usage_is_that_of_all_calls_summaries_included():
    agent = an_agent(*fetches(40))

    reply = await agent.reply(user("Look up forty topics."))

    used = [receipt.usage.input_tokens for receipt in applied(agent)]
    asked = [request.input_tokens for request in agent.model.summary_requests]
    assert len(used) >= 2
    assert used == asked[: len(used)]
    assert len(asked) <= len(used) + 1, "one may have been prepared and wait for its use, which brings its usage in"
    assert reply.usage.input_tokens == sum(request.input_tokens for request in agent.model.chats) + sum(used)


async def test_the_usage_of_a_reply_whose_message_left_is_kept():
    agent = an_agent("one", "two")
    first = await agent.reply(user("First?"))
    tail = agent.state.context[-1]
    agent.state.context.extend(history(25))

    await agent.compress_context(context_config=LOW)
    second = await agent.reply(user("Second?"))

    assert tail.usage.input_tokens == first.usage.input_tokens
    assert second.usage.input_tokens == agent.model.chats[-1].input_tokens


# 5. The cache of files that were read is cleaned with the results


@pytest.mark.may_block("the host's file tools block")
async def test_a_file_whose_content_left_must_be_read_again_before_it_is_edited(tmp_path: Path):
    path = tmp_path / "a.txt"
    kept = tmp_path / "b.txt"
    path.write_text("first line\n")
    kept.write_text("other line\n")
    change = {"old_string": "first", "new_string": "second"}
    agent = an_agent(
        call("Read", file_path=str(path)),
        *fetches(18),
        call("Read", file_path=str(kept)),
        "read both",
        call("Edit", file_path=str(path), **change),
        call("Edit", file_path=str(kept), old_string="other", new_string="new"),
        tools=[fetch, Read(), Edit()],
        injection_config=InjectionConfig(inject_runtime_state=False),
    )
    agent.state.permission_context.mode = PermissionMode.BYPASS
    await agent.reply(user("Read the files."))
    assert {entry.file_path for entry in agent.state.tool_context.read_file_cache} >= {str(kept)}

    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.4, reserve_ratio=0.1))
    cached = {entry.file_path for entry in agent.state.tool_context.read_file_cache}
    await agent.reply(user("Edit them."))

    assert cached == {str(kept)}
    assert path.read_text() == "first line\n"
    assert kept.read_text() == "new line\n"


# 6. Hints of the runtime state are not doubled


async def test_hints_of_the_runtime_state_are_neither_doubled_nor_missing():
    agent = an_agent(*fetches(60, size=250), injection_config=InjectionConfig())

    await agent.reply(user("Look up sixty topics."))

    assert len(applied(agent)) >= 2
    for request in agent.model.chats:
        assert 0 <= text_of(request.messages[1:]).count("<current-time>") <= 2


# 7. An empty summary is none


async def test_without_anything_compressed_the_summary_stays_empty():
    agent = an_agent("one")

    await agent.reply(user("First?"))
    await agent.compress_context(context_config=LOW)

    assert agent.state.summary == ""
    assert [text_of([message]) for message in agent.model.chats[0].messages[1:2]] == ["First?"]


# 8. What arrives during a compression is kept


async def test_what_is_observed_during_an_automatic_compression_is_kept():
    gate, model = gated("fine")
    agent = an_agent(model=model, turns=25)

    running = asyncio.create_task(agent.reply(user("Go on.")))
    await gate.asked.wait()
    await agent.observe(AssistantMsg(name="bob", content="Bob says: mind the gap."))
    gate.open.set()
    await running

    assert applied(agent)
    assert text_of(agent.state.context).count("Bob says: mind the gap.") == 1
    assert "Bob says: mind the gap." in text_of(model.chats[0].messages)


async def test_what_is_observed_while_the_file_cache_is_cleaned_is_kept(monkeypatch):
    agent = an_agent(turns=20)
    cleaning, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*_, **__):
        cleaning.set()
        await go_on.wait()

    monkeypatch.setattr(type(agent.state.tool_context), "clean_file_cache", slow)
    compression = asyncio.create_task(agent.compress_context(context_config=LOW))
    await cleaning.wait()
    await agent.observe(AssistantMsg(name="bob", content="Bob says: mind the gap."))
    go_on.set()
    await compression

    assert applied(agent)
    assert agent.state.context[-1].get_text_content() == "Bob says: mind the gap."


async def test_a_context_that_is_replaced_while_the_file_cache_is_cleaned_is_left_alone(monkeypatch):
    agent = an_agent(turns=20)
    others = [user("Something else.")]

    async def replacing(*_, **__):
        await asyncio.sleep(0)
        agent.state.context = others

    monkeypatch.setattr(type(agent.state.tool_context), "clean_file_cache", replacing)
    await agent.compress_context(context_config=LOW)

    assert receipts(agent)[-1].outcome == "failed"
    assert agent.state.context is others


async def test_what_is_observed_during_a_manual_compression_is_kept():
    gate, model = gated()
    agent = an_agent(model=model, turns=25)

    running = asyncio.create_task(agent.compress_context(context_config=LOW))
    await gate.asked.wait()
    await agent.observe([user("One more thing."), AssistantMsg(name="bob", content="Me too.")])
    gate.open.set()
    await running

    assert applied(agent)
    assert [text_of([message]) for message in agent.state.context[-2:]] == ["One more thing.", "Me too."]


async def test_a_hint_that_arrives_during_a_compression_is_kept():
    gate, model = gated("fine")
    agent = an_agent(model=model, turns=25)

    running = asyncio.create_task(agent.reply(user("Go on.")))
    await gate.asked.wait()
    agent.state.append_context("scribe", [HintBlock(hint="The background job has finished.")])
    gate.open.set()
    await running

    assert applied(agent)
    assert "The background job has finished." in text_of(model.chats[0].messages)
    assert [message.id for message in agent.state.context].count(agent.state.reply_id) == 1


async def test_what_the_running_message_gets_during_a_compression_is_in_it_once():
    gate, model = gated()
    agent = an_agent(model=model, turns=25)
    agent.state.reply_id = "running"
    agent.state.append_context("scribe", exchange(100, size=20))

    running = asyncio.create_task(agent.compress_context(context_config=LOW))
    await gate.asked.wait()
    agent.state.append_context("scribe", exchange(101, size=20))
    gate.open.set()
    await running

    assert applied(agent)
    assert [block.type for block in agent.state.context[-1].content] == ["tool_call", "tool_result"] * 2
    assert len({block.id for block in agent.state.context[-1].content}) == 2


async def test_a_context_that_is_replaced_during_a_compression_wins():
    gate, model = gated("fine")
    agent = an_agent(model=model, turns=25)

    running = asyncio.create_task(agent.compress_context(context_config=LOW))
    await gate.asked.wait()
    agent.state.context = [user("All new.")]
    gate.open.set()
    await running

    assert text_of(agent.state.context) == "All new."
    assert agent.state.summary == ""
    assert receipts(agent)[-1].outcome == "failed"


async def test_arguments_that_no_parser_takes_stop_no_compression():
    agent = an_agent(turns=25)
    deep = call("Read", file_path="x")
    deep.input, deep.state = "[" * 1500, "finished"
    agent.state.reply_id = "running"
    agent.state.append_context("scribe", [deep, ToolResultBlock(id=deep.id, name="Read", output="No such file.")])

    await agent.compress_context(context_config=LOW)

    assert applied(agent)
    assert deep in agent.state.context[-1].content


# 9. Blocks that are shared with what the caller got are not changed


async def test_messages_and_blocks_that_the_caller_holds_are_never_changed():
    agent = an_agent(call("fetch", topic="big", size=1500), "Here it is. " + words(50), *fetches(60, size=250))
    reply = await agent.reply(user("Look up a big topic."))
    held = list(agent.state.context)
    before = copy.deepcopy((reply, held))

    await agent.reply(user("Look up sixty topics."))

    assert applied(agent)
    assert [m.model_dump() for m in (reply, *held[:-1])] == [m.model_dump() for m in (before[0], *before[1][:-1])]
    assert [block.model_dump() for block in held[-1].content] == [block.model_dump() for block in before[1][-1].content]


# 10. The inner generator is never run ahead of its consumer


class SwallowOnce(MiddlewareBase):
    """Swallows the end of a reply once, which makes the host reason again."""

    def __init__(self):
        self.swallowed = 0

    async def on_reply(self, agent, input_kwargs, next_handler):
        async for item in next_handler():
            if isinstance(item, ReplyEndEvent) and not self.swallowed:
                self.swallowed += 1
                agent.state.append_context(agent.name, [HintBlock(hint="Say it again.")])
                continue
            yield item


@pytest.mark.skipif("_receive_reply_end" not in inspect.getsource(Agent), reason="this AgentScope ends a reply anyway")
@pytest.mark.parametrize("outside", [True, False])
async def test_a_middleware_that_swallows_the_end_of_a_reply_gets_exactly_one_more_round(outside):
    swallow = SwallowOnce()
    middlewares = [swallow, CompressionMiddleware()] if outside else [CompressionMiddleware(), swallow]
    agent = an_agent(*fetches(25), "first answer", "second answer", middlewares=middlewares)

    reply = await agent.reply(user("Look up 25 topics."))

    assert swallow.swallowed == 1
    assert len(agent.model.chats) == 27
    assert reply.get_text_content() == "second answer"
    assert applied(agent)


async def test_a_reply_takes_one_model_call_a_step_and_ends_once():
    agent = an_agent(*fetches(25))

    events = await events_of(agent.reply_stream(user("Look up 25 topics.")))

    assert len(agent.model.chats) == 26
    assert sum(isinstance(event, ReplyEndEvent) for event in events) == 1
    assert applied(agent)


# 11. Structured replies


class Verdict(BaseModel):
    found: int
    best: str


async def test_a_structured_reply_comes_out_across_compressions():
    agent = an_agent(*fetches(40), call("GenerateStructuredOutput", found=40, best="topic-7"), model=None)

    name = [
        event
        async for event in agent.reply_stream(
            user("Look up forty topics."), structured_schema=Verdict, yield_final_msg=True
        )
        if isinstance(event, Msg)
    ]

    assert len(applied(agent)) >= 2
    assert name[-1].structured_output == {"found": 40, "best": "topic-7"}


# 12. Callers may come at the same time


async def test_a_reply_observations_and_manual_compressions_at_the_same_time_lose_nothing():
    agent = an_agent(*fetches(30), turns=10)

    async def observe():
        for number in range(10):
            await asyncio.sleep(0)
            if agent.state.context[-1].id != agent.state.reply_id:
                await agent.observe(AssistantMsg(name="bob", content=f"Bob's word {number}."))

    async def compress():
        for _ in range(10):
            await asyncio.sleep(0)
            await agent.compress_context(context_config=LOW)

    await asyncio.gather(agent.reply(user("Look up thirty topics.")), observe(), compress())

    store = agent.offloader.store
    reference = next(r.reference for r in applied(agent))
    everything = (await store.get(reference)).decode() + text_of(agent.state.context) + summary_text(agent)
    assert [i for i in range(10) if f"Question {i}:" not in everything] == []
    assert orphans(agent.state.context) == []
    assert "done" in text_of(agent.state.context)
