"""Overflow with AgentScope's real OpenAI and Anthropic classes, through their SDKs, on a local socket."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from agentscope.credential import AnthropicCredential, OpenAICredential
from agentscope.message import Msg
from agentscope.model import AnthropicChatModel, ChatModelBase, OpenAIChatModel

from ctxkit.testing import FakeProvider, Refusal, Reply, overflow_body
from tests.host.agents import applied, events_of, history, make_agent, memory_offloader, orphans, told, user

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.may_block("the SDKs read certificates when a client is made"),
]

Make = Callable[[FakeProvider], ChatModelBase]
WINDOW = 6000


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(params=[False, True], ids=["plain", "streamed"])
async def make(protocol: str, request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[Any] = []

    def _make(provider: FakeProvider) -> ChatModelBase:
        kind, credential = (
            (OpenAIChatModel, OpenAICredential) if protocol == "openai" else (AnthropicChatModel, AnthropicCredential)
        )
        model = kind(
            credential=credential(api_key="none", base_url=provider.base_url),
            model="test-model",
            stream=request.param,
            max_retries=0,
            context_size=32768,
            client_kwargs={"max_retries": 0},
        )
        made.append(model)
        return model

    yield _make
    for model in made:
        await model.client.close()


def an_agent(model: ChatModelBase, turns: int = 24):
    agent = make_agent(model, offloader=memory_offloader())
    agent.state.context.extend(history(turns))
    return agent


def snapshot(context: list[Msg]) -> str:
    return "\n".join(message.model_dump_json() for message in context)


@pytest.mark.row("D8", "X3")
async def test_a_refused_request_is_sent_smaller_and_the_next_turn_compresses(make):
    async with FakeProvider(enforce="cl100k", context_size=WINDOW) as provider:
        agent = an_agent(make(provider))
        before = snapshot(agent.state.context)

        events = await events_of(agent.reply_stream(user("And now?")))

        first, second = (request.input_tokens for request in provider.requests)
        assert second <= WINDOW < first
        assert snapshot(agent.state.context).startswith(before)
        assert agent.state.context[-1].get_text_content() == "done"
        assert "request.overflow" in told(events)

        await events_of(agent.reply_stream(user("And then?")))

    assert [receipt.limit_tokens for receipt in applied(agent)] == [int(0.8 * WINDOW)]
    assert orphans(agent.state.context) == []
    assert all(request.input_tokens <= WINDOW for request in provider.requests[1:])


@pytest.mark.row("D8")
@pytest.mark.parametrize("make", [True], indirect=True, ids=["streamed"])
async def test_an_overflow_that_a_stream_ends_with_is_answered_with_less(make, protocol):
    error = overflow_body("anthropic" if protocol == "anthropic" else "openai", limit_tokens=WINDOW, needed_tokens=9000)
    broken = Reply(text="Let me think about it.", error=error)
    async with FakeProvider([broken, Reply(text="All is well.")]) as provider:
        agent = an_agent(make(provider))

        await events_of(agent.reply_stream(user("And now?")))

    assert agent.state.context[-1].get_text_content() == "All is well."
    first, second = (request.input_tokens for request in provider.requests)
    assert second < first


async def test_a_connection_that_is_cut_is_raised_and_the_session_goes_on(make):
    async with FakeProvider([Reply(text="Let me think about it.", cut_after=3), Reply(text="Here.")]) as provider:
        agent = an_agent(make(provider), 2)

        with pytest.raises(Exception, match=r"(?i)connection|peer|incomplete|read") as caught:
            await events_of(agent.reply_stream(user("And now?")))

        assert len(provider.requests) == 1
        assert "ContextUnfit" not in type(caught.value).__name__
        await events_of(agent.reply_stream(user("Once more?")))

    assert agent.state.context[-1].get_text_content() == "Here."
    assert provider.requests[1].input_tokens > provider.requests[0].input_tokens


async def test_a_rate_limit_is_raised_as_it_is_and_teaches_nothing(make, protocol):
    async with FakeProvider([Refusal.rate_limit(protocol), Reply(text="Here.")]) as provider:
        agent = an_agent(make(provider))

        with pytest.raises(Exception, match="Rate limit reached") as caught:
            await events_of(agent.reply_stream(user("And now?")))

        assert type(caught.value).__name__ == "RateLimitError"
        assert len(provider.requests) == 1
        await events_of(agent.reply_stream(user("Once more?")))

    assert applied(agent) == []
    assert provider.requests[1].input_tokens > provider.requests[0].input_tokens
