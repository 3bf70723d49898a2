"""The prompt cache: between two edits each request begins with the one before, in every formatter of the host (row X7)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import agentscope.formatter
import pytest
import pytest_asyncio
from agentscope.agent import ModelConfig
from agentscope.credential import AnthropicCredential, OpenAICredential
from agentscope.message import Msg, TextBlock, ThinkingBlock
from agentscope.middleware import MiddlewareBase
from agentscope.model import AnthropicChatModel, ChatModelBase, OpenAIChatModel

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    CostConfig,
    LadderConfig,
    SummaryConfig,
    WireRequest,
    prefix_audit,
    wire_request,
)
from ctxkit.config import KNOWN_RUNGS
from ctxkit.testing import FakeProvider, Refusal, Reply, ScriptedModel, call
from tests.host.agents import applied, events_of, fetches, history, make_agent, memory_offloader, user, words

WINDOW = 16_000
FORMATTERS = sorted(name for name in agentscope.formatter.__all__ if name != "FormatterBase")
CHAT = [name for name in FORMATTERS if "MultiAgent" not in name]
MULTI_AGENT = [name for name in FORMATTERS if "MultiAgent" in name]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One request as the innermost middleware saw it."""

    messages: list[Msg]
    tools: list[dict[str, Any]]
    summary: list[str]
    edits: int


class Recorder(MiddlewareBase):
    """Records each request, and how many edits there were before it."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    async def on_model_call(self, agent, input_kwargs, next_handler):
        messages = [message.model_copy(deep=True) for message in input_kwargs["messages"]]
        summary = [block.text for block in agent.state.summary] if agent.state.summary else []
        self.taken.append(
            Taken(messages=messages, tools=input_kwargs["tools"], summary=summary, edits=len(applied(agent)))
        )
        return await next_handler()


def script() -> list[Any]:
    steps: list[Any] = []
    for turn in range(6):
        for number in range(6):
            topic = f"{turn}-{number}"
            thinks = [ThinkingBlock(thinking=f"What of {topic}?"), TextBlock(text="I look it up.")]
            steps.append([*thinks, call("fetch", topic=topic, size=700), call("fetch", topic=f"{topic}-too", size=350)])
        steps.append(f"That was turn {turn}.")
    return [*steps, "One word.", "Another word."]


@cache
def run_with(rungs: Sequence[str]) -> list[Taken]:
    """Return the requests of one run with several edits; they are the same for each formatter."""

    async def run() -> list[Taken]:
        recorder = Recorder()
        config = ContextConfig(
            trigger_ratio=0.8, summary=SummaryConfig(prepare=False), ladder=LadderConfig(rungs=rungs, keep_results=2)
        )
        agent = make_agent(
            ScriptedModel(script(), context_size=WINDOW, enforce="cl100k"),
            config=config,
            offloader=memory_offloader(),
            middlewares=[CompressionMiddleware(), recorder],
        )
        for turn in range(8):
            await agent.reply(user(f"Question {turn}, please."))
        return recorder.taken

    return asyncio.run(run())


@pytest.fixture(params=[("summarize",), KNOWN_RUNGS], ids=["summaries", "ladder"])
def taken(request: pytest.FixtureRequest) -> list[Taken]:
    return run_with(request.param)


def formatter(name: str) -> Any:
    if name.startswith("XAI"):
        pytest.importorskip("xai_sdk", reason="the formatter builds this SDK's own objects")
    return SimpleNamespace(formatter=getattr(agentscope.formatter, name)())


async def on_wire(name: str, taken: Sequence[Taken]) -> list[WireRequest]:
    model = formatter(name)
    return [await wire_request(model, one.messages, one.tools, has_summary=bool(one.summary)) for one in taken]


@pytest.mark.row("X7")
@pytest.mark.parametrize("name", CHAT)
def test_between_two_edits_a_request_begins_with_the_whole_one_before(name, taken):
    async def shares() -> list[tuple[float, str | None]]:
        sent = await on_wire(name, taken)
        audits = [await prefix_audit(a, b) for a, b in itertools.pairwise(sent)]
        pairs = zip(taken, taken[1:], audits, strict=False)
        return [(audit.share, audit.component) for a, b, audit in pairs if a.edits == b.edits]

    found = asyncio.run(shares())
    assert len(found) > 30
    assert set(found) == {(1.0, None)}


@pytest.mark.row("X7")
@pytest.mark.parametrize("name", MULTI_AGENT)
def test_where_many_agents_speak_only_the_last_message_may_change_between_two_edits(name, taken):
    # The host's multi-agent formatters join plain talk into one message, so what is said next changes that message. This
    # is the host's own doing; nothing that comes before the last message ever changes.
    async def broken() -> list[int]:
        sent = await on_wire(name, taken)
        found = []
        for old, new, a, b in zip(taken, taken[1:], sent, sent[1:], strict=False):
            audit = await prefix_audit(a, b)
            if old.edits == new.edits and audit.component is not None:
                found.append(int(audit.component.split(" ")[1]))
                assert found[-1] == len(a.messages) - 1
        return found

    assert len(asyncio.run(broken())) <= 8


@pytest.mark.row("X7")
@pytest.mark.parametrize("name", FORMATTERS)
def test_an_edit_leaves_tools_system_prompt_and_frozen_stubs_as_they_are(name):
    taken = run_with(("summarize",))

    async def check() -> int:
        sent = await on_wire(name, taken)
        checked = 0
        for old, new, a, b in zip(taken, taken[1:], sent, sent[1:], strict=False):
            if old.edits == new.edits or not old.summary:
                continue
            audit = await prefix_audit(a, b)
            before = await prefix_audit(a, WireRequest(messages=a.messages[:1], tools=a.tools))
            assert audit.component == "summary"
            assert new.summary[0].startswith(old.summary[0])  # the stubs; only new ones are written behind them
            assert audit.stable_bytes >= before.stable_bytes + len(old.summary[0].encode())
            checked += 1
        return checked

    assert asyncio.run(check()) >= 2


@pytest.mark.row("X7")
def test_a_rung_that_clears_results_leaves_everything_before_the_first_of_them():
    taken = run_with(("clear_results", "summarize"))

    async def components() -> list[str]:
        sent = await on_wire("OpenAIChatFormatter", taken)
        audits = [await prefix_audit(a, b) for a, b in itertools.pairwise(sent)]
        pairs = zip(taken, taken[1:], audits, strict=False)
        return [audit.component for a, b, audit in pairs if a.edits != b.edits and a.summary == b.summary]

    assert [name for name in asyncio.run(components()) if not name.endswith("(tool)")] == []


# A prefix that somebody else breaks


class Prompts(MiddlewareBase):
    """Writes the number of the look into the system prompt."""

    def __init__(self) -> None:
        self.looks = 0

    async def on_system_prompt(self, agent, current_prompt):
        self.looks += 1
        return f"{current_prompt} This is look {self.looks}."


class Appends(MiddlewareBase):
    """Puts a note of so many words behind each request."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = 0

    async def on_model_call(self, agent, input_kwargs, next_handler):
        self.calls += 1
        note = user(f"Note {self.calls}: {words(self.size)}")
        return await next_handler(messages=[*input_kwargs["messages"], note])


async def broken_by(other: MiddlewareBase | None, **settings: Any) -> list[dict[str, Any]]:
    agent = make_agent(
        ScriptedModel([*fetches(12), "done"], context_size=32_768, enforce="cl100k"),
        offloader=memory_offloader(),
        middlewares=[CompressionMiddleware(), *([other] if other else [])],
        **settings,
    )
    agent.state.context.extend(history(8))
    events = await events_of(agent.reply_stream(user("Look up twelve topics.")))
    return [event.value for event in events if getattr(event, "name", "") == "ctxkit.cache.broken"]


@pytest.mark.asyncio
@pytest.mark.row("X7")
async def test_a_system_prompt_that_changes_with_each_request_is_named_once():
    [told] = await broken_by(Prompts())

    assert told["component"] == "system prompt"
    assert 0 < told["stable_tokens"] < 2000  # the tools, which come before it


@pytest.mark.asyncio
@pytest.mark.row("X7")
async def test_a_tool_that_comes_in_between_is_named():
    agent_tools: list[Any] = []

    class Equips(MiddlewareBase):
        async def on_model_call(self, agent, input_kwargs, next_handler):
            agent_tools.append(0)
            late = {"type": "function", "function": {"name": "late", "parameters": {}}}
            tools = [late, *input_kwargs["tools"]] if len(agent_tools) > 5 else input_kwargs["tools"]
            return await next_handler(tools=tools)

    [told] = await broken_by(Equips())

    assert told["component"] == "tool 'late'"


@pytest.mark.asyncio
@pytest.mark.row("X7")
async def test_an_undisturbed_run_tells_nothing():
    assert await broken_by(None) == []


@pytest.mark.asyncio
@pytest.mark.row("X7")
async def test_a_short_note_behind_each_request_is_not_worth_an_event_and_a_long_one_is():
    assert await broken_by(Appends(100)) == []

    [told] = await broken_by(Appends(2000))

    assert told["component"].endswith("(text)")
    assert told["stable_tokens"] > 2000


@pytest.mark.asyncio
@pytest.mark.row("X7")
async def test_an_edit_of_ctxkits_own_is_no_broken_prefix():
    config = ContextConfig(trigger_ratio=0.3, summary=SummaryConfig(prepare=False))

    assert await broken_by(None, config=config) == []


# Anthropic, whose cache must be asked for

Make = Callable[..., ChatModelBase]
AUTOMATIC = {"type": "ephemeral"}


@pytest_asyncio.fixture(params=[False, True], ids=["plain", "streamed"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[Any] = []

    def _make(provider: FakeProvider, kind: type = AnthropicChatModel, name: str = "claude") -> ChatModelBase:
        credential = AnthropicCredential if kind is AnthropicChatModel else OpenAICredential
        model = kind(
            credential=credential(api_key="none", base_url=provider.base_url),
            model=name,
            stream=request.param,
            max_retries=0,
            context_size=64_000,
            client_kwargs={"max_retries": 0},
        )
        made.append(model)
        return model

    yield _make
    for model in made:
        await model.client.close()


def asking(**settings: Any) -> ContextConfig:
    return ContextConfig(
        cost=CostConfig(ask_for_cache=True),
        summary=SummaryConfig(prepare=False, retry_delay_s=0.0),
        ladder=LadderConfig(rungs=("summarize",)),
        **settings,
    )


on_a_socket = pytest.mark.may_block("the SDKs read certificates when a client is made")


@pytest.mark.asyncio
@on_a_socket
@pytest.mark.row("X7")
async def test_anthropic_is_asked_to_cache_where_that_is_switched_on(make):
    replies = [Reply(calls=[("fetch", {"topic": "one"})]), Reply(text="Found.")]
    async with FakeProvider(replies) as provider:
        agent = make_agent(make(provider), config=asking(), offloader=memory_offloader())
        await events_of(agent.reply_stream(user("Look it up.")))

    assert [request.body.get("cache_control") for request in provider.requests] == [AUTOMATIC, AUTOMATIC]
    assert "cache_control" not in str([request.body["messages"] for request in provider.requests])


@pytest.mark.asyncio
@on_a_socket
@pytest.mark.row("X7")
async def test_nobody_is_asked_to_cache_unless_it_is_switched_on(make):
    async with FakeProvider() as provider:
        agent = make_agent(make(provider), offloader=memory_offloader())
        await events_of(agent.reply_stream(user("Hello.")))

    assert "cache_control" not in provider.requests[0].body


@pytest.mark.asyncio
@on_a_socket
@pytest.mark.row("X7")
async def test_other_providers_and_fallback_models_are_left_alone(make):
    async with FakeProvider([Refusal.server_error("anthropic")]) as provider:
        fallback = make(provider, name="claude-fallback")
        config = ModelConfig(max_retries=0, fallback_model=fallback)
        agent = make_agent(make(provider), config=asking(), offloader=memory_offloader(), model_config=config)
        await events_of(agent.reply_stream(user("Hello.")))
        other = make_agent(make(provider, OpenAIChatModel, "gpt"), config=asking(), offloader=memory_offloader())
        await events_of(other.reply_stream(user("Hello.")))

    asked = [(request.body["model"], request.body.get("cache_control")) for request in provider.requests]
    assert asked == [("claude", AUTOMATIC), ("claude-fallback", None), ("gpt", None)]


@pytest.mark.asyncio
@on_a_socket
@pytest.mark.row("X5", "X7")
async def test_the_summary_call_asks_for_the_same_cache_and_begins_with_the_same_bytes(make):
    async with FakeProvider() as provider:
        middleware = CompressionMiddleware()
        agent = make_agent(make(provider), config=asking(), offloader=memory_offloader(), middlewares=[middleware])
        agent.state.context.extend(history(12))
        await events_of(agent.reply_stream(user("Go on.")))
        await middleware.compact(agent)

    chat, summary = (request.body for request in provider.requests[:2])
    assert summary["cache_control"] == AUTOMATIC
    assert (summary["system"], summary.get("tools")) == (chat["system"], chat.get("tools"))
    assert summary["messages"][: len(chat["messages"])] == chat["messages"]
