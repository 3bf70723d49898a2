"""AgentScope's real OpenAI and Anthropic classes, with their SDKs, against the provider on a local socket."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import openai
import pytest
import pytest_asyncio
from agentscope.credential import AnthropicCredential, OpenAICredential
from agentscope.message import SystemMsg, TextBlock, UserMsg
from agentscope.model import AnthropicChatModel, ChatModelBase, ChatResponse, OpenAIChatModel

from ctxkit.host._usage import input_tokens_of
from ctxkit.overflow import recognise
from ctxkit.testing import FakeProvider, ProviderRequest, Refusal, Reply, overflow_body

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.may_block("the SDKs read certificates when a client is made"),
]

MESSAGES = [
    SystemMsg(name="system", content=[TextBlock(text="You are helpful.")]),
    UserMsg(name="user", content=[TextBlock(text="List the files, please.")]),
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "glob",
            "description": "Find files",
            "parameters": {"type": "object", "properties": {"pattern": {"type": "string"}}},
        },
    }
]

Make = Callable[..., ChatModelBase]


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest_asyncio.fixture
async def make(protocol: str, stream: bool) -> AsyncIterator[Make]:
    made: list[Any] = []

    def _make(provider: FakeProvider) -> ChatModelBase:
        kind, credential = (
            (OpenAIChatModel, OpenAICredential) if protocol == "openai" else (AnthropicChatModel, AnthropicCredential)
        )
        model = kind(
            credential=credential(api_key="none", base_url=provider.base_url),
            model="test-model",
            stream=stream,
            max_retries=0,
            client_kwargs={"max_retries": 0},
        )
        made.append(model)
        return model

    yield _make
    for model in made:
        await model.client.close()


async def ask(model: ChatModelBase) -> ChatResponse:
    """Return the last response of a call, streamed or not."""
    answer = await model(MESSAGES, tools=TOOLS)
    if inspect.isasyncgen(answer):
        last = [response async for response in answer][-1]
        assert last.is_last
        return last
    return answer


async def test_a_text_and_a_tool_call_arrive_whole(make):
    reply = Reply(
        text="Here they are: Zürich, 東京.", calls=[("glob", {"pattern": "**/*.py", "ünï": "码"}), ("glob", {})]
    )
    async with FakeProvider([reply]) as provider:
        response = await ask(make(provider))

    assert [block.type for block in response.content] == ["text", "tool_call", "tool_call"]
    assert response.content[0].text == "Here they are: Zürich, 東京."
    assert (response.content[1].name, response.content[1].input) == ("glob", '{"pattern": "**/*.py", "ünï": "码"}')
    assert response.content[2].input in ("{}", "")
    assert response.content[1].id != response.content[2].id


async def test_the_whole_input_is_known_from_the_usage_whatever_the_protocol(make):
    reply = Reply(text="ok", input_tokens=12_000, cached_tokens=9_000, output_tokens=33)
    async with FakeProvider([reply]) as provider:
        model = make(provider)
        usage = (await ask(model)).usage

    assert usage is not None
    assert (input_tokens_of(usage, model), usage.cache_input_tokens, usage.output_tokens) == (12_000, 9_000, 33)


@pytest.mark.parametrize("protocol", ["anthropic"], indirect=True)
async def test_anthropics_cache_writes_are_part_of_the_input(make):
    reply = Reply(text="ok", input_tokens=12_000, cached_tokens=9_000, written_tokens=2_500)
    async with FakeProvider([reply]) as provider:
        model = make(provider)
        usage = (await ask(model)).usage

    assert usage is not None
    assert (usage.input_tokens, input_tokens_of(usage, model)) == (500, 12_000)


async def test_the_request_is_recorded_as_it_came(make, protocol, stream):
    async with FakeProvider() as provider:
        await ask(make(provider))

    (request,) = provider.requests
    assert request.protocol == protocol
    assert request.body["model"] == "test-model"
    assert bool(request.body.get("stream")) is stream
    assert "List the files" in str(request.body["messages"])
    assert request.input_tokens > 0


async def test_an_overflow_is_recognised_through_the_real_sdk(make, protocol):
    refusal = Refusal.overflow(protocol, limit_tokens=8192, needed_tokens=9001)
    async with FakeProvider([refusal]) as provider:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as caught:
            await ask(make(provider))

    found = recognise(caught.value)
    assert found is not None
    assert (found.limit_tokens, found.needed_tokens) == (8192, 9001)


async def test_the_window_is_enforced_by_a_true_tokenizer(make):
    async with FakeProvider(enforce="cl100k", context_size=20) as provider:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as caught:
            await ask(make(provider))

    found = recognise(caught.value)
    assert found is not None
    assert (found.limit_tokens, found.needed_tokens) == (20, provider.requests[0].input_tokens)


async def test_a_rate_limit_is_not_an_overflow(make, protocol):
    async with FakeProvider([Refusal.rate_limit(protocol, retry_after_s=7)]) as provider:
        with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as caught:
            await ask(make(provider))

    assert caught.value.response.headers["retry-after"] == "7"
    assert recognise(caught.value) is None


async def test_a_server_error_is_not_an_overflow(make, protocol):
    async with FakeProvider([Refusal.server_error(protocol)]) as provider:
        with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)) as caught:
            await ask(make(provider))

    assert recognise(caught.value) is None


async def test_a_connection_that_is_cut_raises_and_is_not_an_overflow(make):
    async with FakeProvider([Reply(text="a long text that never ends " * 5, cut_after=3)]) as provider:
        with pytest.raises(Exception, match=r"(?i)incomplete|connection|closed|peer") as caught:
            await ask(make(provider))

    assert recognise(caught.value) is None


@pytest.mark.parametrize("stream", [True], indirect=True)
async def test_an_overflow_in_the_middle_of_a_stream_is_recognised(make, protocol):
    body = overflow_body(protocol, limit_tokens=8192, needed_tokens=9001)
    async with FakeProvider([Reply(text="Let me think about it", error=body)]) as provider:
        with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
            await ask(make(provider))

    found = recognise(caught.value)
    assert found is not None
    assert (found.limit_tokens, found.needed_tokens) == (8192, 9001)


async def test_a_script_may_look_at_the_request(make):
    async def look(request: ProviderRequest) -> Reply:
        return Reply(text=f"{len(request.body['tools'])} tool")

    async with FakeProvider([look], after=Reply(text="over")) as provider:
        model = make(provider)

        assert [(await ask(model)).content[0].text for _ in range(3)] == ["1 tool", "over", "over"]


@pytest.mark.parametrize("words", ["openai", "azure", "deepseek", "dashscope", "moonshot", "vllm", "llamacpp"])
async def test_every_refusal_that_the_provider_knows_is_recognised(words):
    async with FakeProvider([Refusal.overflow(words, limit_tokens=8192, needed_tokens=9001)]) as provider:
        client = openai.AsyncOpenAI(api_key="none", base_url=provider.base_url, max_retries=0)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        await client.close()

    found = recognise(caught.value)
    assert found is not None
    assert found.limit_tokens == 8192


async def test_a_provider_that_is_not_open_says_so():
    with pytest.raises(RuntimeError, match="async with FakeProvider"):
        _ = FakeProvider().base_url
