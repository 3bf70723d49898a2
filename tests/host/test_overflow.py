"""Requests that do not fit: what a provider refuses, what can be foreseen, and what cannot be made to fit at all."""

import asyncio

import pytest
from agentscope.agent import ModelConfig
from agentscope.event import EventType
from agentscope.middleware import MiddlewareBase

from ctxkit import CompressionMiddleware, ContextConfig, ContextUnfitError, OffloadConfig, OverflowConfig
from ctxkit.testing import BreakOff, ScriptedModel, call, overflow_error, sdk_error
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    receipts,
    text_of,
    told,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
PROVIDERS = [
    "openai",
    "azure",
    "anthropic",
    "deepseek",
    "dashscope",
    "moonshot",
    "vllm",
    "llamacpp",
    "gemini",
    "ollama",
]
NAME_NO_WINDOW = {"ollama"}
NAMELESS = sdk_error(
    "openai",
    status=400,
    body={"error": {"message": "The prompt is too long.", "type": "invalid_request_error", "code": "prompt_too_long"}},
)


def roomy(model_limit: int = 6000, **kwargs) -> ScriptedModel:
    """A model that claims 32k tokens and whose provider takes fewer."""
    return ScriptedModel(context_size=32768, limit=model_limit, enforce="cl100k", **kwargs)


def snapshot(agent) -> str:
    return "\n".join(message.model_dump_json() for message in agent.state.context)


def with_history(agent, turns: int = 24, **kwargs):
    agent.state.context.extend(history(turns, **kwargs))
    return agent


def last_request(messages) -> str:
    return [message.get_text_content() for message in messages if message.role == "user"][-1]


def sizes(model: ScriptedModel) -> list[int]:
    return [request.input_tokens for request in model.chats]


@pytest.mark.row("D8", "X3")
@STREAMS
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_request_that_the_provider_refuses_is_sent_smaller_and_the_reply_goes_on(provider, stream):
    model = roomy(provider=provider, stream=stream)
    agent = with_history(make_agent(model, offloader=memory_offloader()))
    before = snapshot(agent)

    events = await events_of(agent.reply_stream(user("And now?")))

    assert [request.refused for request in model.chats] == [True, False]
    known = sizes(model)[0] if provider in NAME_NO_WINDOW else 6000
    assert sizes(model)[1] <= known / 2, "what fits by a hair may be refused again"
    assert last_request(model.chats[1].messages) == "And now?"
    assert agent.state.context[-1].get_text_content() == "done"
    assert EventType.REPLY_END in [event.type for event in events]
    assert snapshot(agent).startswith(before)
    assert "request.overflow" in told(events)
    assert model.summary_requests == []


@pytest.mark.row("D8")
@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each not in NAME_NO_WINDOW])
async def test_the_next_step_compresses_to_the_window_that_was_learnt(provider):
    model = roomy(provider=provider)
    agent = with_history(make_agent(model, offloader=memory_offloader()))
    await events_of(agent.reply_stream(user("And now?")))
    known = len(model.requests)

    await events_of(agent.reply_stream(user("And then?")))

    assert [receipt.limit_tokens for receipt in applied(agent)] == [int(0.8 * 6000)]
    assert not any(request.refused for request in model.requests[known:])
    assert sizes(model)[-1] < 0.8 * 6000


@pytest.mark.row("D8")
async def test_a_summary_request_that_is_refused_teaches_the_window_too():
    model = roomy(5000, script=[*fetches(60), "Done."])
    config = ContextConfig(trigger_ratio=0.15)
    agent = make_agent(model, config=config, offloader=memory_offloader())

    await events_of(agent.reply_stream(user("Look them up.")))

    assert len(applied(agent)) > 3
    assert [receipt.limit_tokens for receipt in applied(agent)][-1] == int(0.15 * 5000)
    assert sum(request.refused for request in model.requests) == 1


@pytest.mark.row("D8")
@pytest.mark.parametrize("provider", sorted(NAME_NO_WINDOW))
async def test_a_window_that_no_refusal_names_is_found_and_every_reply_goes_on(provider):
    model = roomy(provider=provider)
    agent = with_history(make_agent(model, offloader=memory_offloader()))

    for text in ("And now?", "And then?", "And after that?"):
        known = len(model.chats)
        await events_of(agent.reply_stream(user(text)))
        assert last_request(model.chats[-1].messages) == text
        assert len(model.chats) - known <= 2

    assert not model.chats[-1].refused
    assert applied(agent)
    assert orphans(agent.state.context) == []


@pytest.mark.row("D8")
async def test_a_refusal_without_numbers_halves_the_request_until_it_is_taken():
    def window(messages):
        size = sum(len(text_of([message])) for message in messages)
        return NAMELESS if size > 24_000 else "done"

    model = ScriptedModel([window] * 4, context_size=32768, enforce="cl100k")
    agent = with_history(make_agent(model, offloader=memory_offloader()), 40)
    before = snapshot(agent)

    await events_of(agent.reply_stream(user("And now?")))

    first, *others = sizes(model)
    assert 1 <= len(others) <= 3
    assert others[0] <= first / 2
    assert snapshot(agent).startswith(before)
    known = len(model.chats)
    await events_of(agent.reply_stream(user("And then?")))
    assert applied(agent)[-1].limit_tokens < first
    assert len(model.chats) - known <= 2


@pytest.mark.row("X3")
@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_tries_are_bounded_and_each_is_strictly_smaller(retries):
    model = ScriptedModel([NAMELESS] * 20, context_size=32768, enforce="cl100k")
    config = ContextConfig(overflow=OverflowConfig(retries=retries))
    agent = with_history(make_agent(model, config=config, offloader=memory_offloader()), 40)
    before = snapshot(agent)

    with pytest.raises(type(NAMELESS)) as caught:
        await events_of(agent.reply_stream(user("And now?")))

    assert caught.value is NAMELESS
    tried = sizes(model)
    assert len(tried) == retries + 1
    assert tried == sorted(set(tried), reverse=True)
    assert snapshot(agent).startswith(before)


@STREAMS
@pytest.mark.parametrize(
    "error",
    [
        TypeError("an argument is missing"),
        sdk_error(
            "openai",
            status=429,
            body={
                "error": {
                    "message": "Rate limit reached on tokens per min (TPM): Limit 30000",
                    "code": "rate_limit_exceeded",
                }
            },
        ),
        sdk_error(
            "anthropic",
            status=429,
            body={
                "type": "error",
                "error": {"type": "rate_limit_error", "message": "prompt is too long for your rate limit"},
            },
        ),
        sdk_error("openai", status=500, body={"error": {"message": "Internal server error"}}),
    ],
    ids=["other", "429-openai", "429-anthropic", "500"],
)
async def test_an_error_that_is_no_overflow_is_raised_unchanged(error, stream):
    model = ScriptedModel([error, error], context_size=32768, stream=stream)
    agent = with_history(make_agent(model))

    with pytest.raises(type(error)) as caught:
        await events_of(agent.reply_stream(user("And now?")))

    assert caught.value is error
    assert len(model.chats) == 1


@pytest.mark.row("D8")
@pytest.mark.parametrize("began", [[], "Let me think about"], ids=["before the first chunk", "in mid-stream"])
async def test_a_stream_that_breaks_off_by_overflow_starts_anew_with_less(began):
    refusal = overflow_error("openai", limit_tokens=6000, needed_tokens=7100)
    model = ScriptedModel(
        [BreakOff(error=refusal, content=began), "All is well."], context_size=32768, enforce="cl100k", stream=True
    )
    agent = with_history(make_agent(model, offloader=memory_offloader()), 18)

    events = await events_of(agent.reply_stream(user("And now?")))

    first, second = sizes(model)
    assert second < first
    assert second <= 6000
    assert agent.state.context[-1].get_text_content() == "All is well."
    texts = [event for event in events if event.type == EventType.TEXT_BLOCK_DELTA]
    final = "".join(event.delta for event in texts if event.block_id == texts[-1].block_id)
    assert final == "All is well."
    starts = [event.block_id for event in events if event.type == EventType.TEXT_BLOCK_START]
    ends = [event.block_id for event in events if event.type == EventType.TEXT_BLOCK_END]
    assert starts == ends
    assert len(starts) == (2 if began else 1)


async def test_a_stream_that_breaks_off_for_another_reason_is_raised_unchanged():
    error = ConnectionError("the line is dead")
    model = ScriptedModel([BreakOff(error=error)], context_size=32768, stream=True)
    agent = make_agent(model)

    with pytest.raises(ConnectionError) as caught:
        await events_of(agent.reply_stream(user("Hello?")))

    assert caught.value is error
    assert len(model.chats) == 1


@pytest.mark.row("X3")
async def test_the_hosts_own_retry_starts_smaller_than_what_was_refused():
    model = ScriptedModel([NAMELESS] * 20, context_size=32768, enforce="cl100k")
    config = ContextConfig(overflow=OverflowConfig(retries=1))
    agent = with_history(
        make_agent(model, config=config, offloader=memory_offloader(), model_config=ModelConfig(max_retries=1)), 60
    )

    with pytest.raises(type(NAMELESS)):
        await events_of(agent.reply_stream(user("And now?")))

    tried = sizes(model)
    assert len(tried) == 4
    assert tried == sorted(set(tried), reverse=True)


@pytest.mark.row("X3")
async def test_a_later_hook_call_for_the_same_request_sends_what_was_learnt_at_once():
    flaky = ConnectionError("try again")
    model = ScriptedModel([flaky, "done"], context_size=32768, limit=6000, enforce="cl100k")
    agent = with_history(make_agent(model, offloader=memory_offloader(), model_config=ModelConfig(max_retries=1)))

    await events_of(agent.reply_stream(user("And now?")))

    assert [request.refused for request in model.chats] == [True, False, False]
    assert sizes(model)[1] == sizes(model)[2]


@pytest.mark.row("D8", "X3")
@STREAMS
async def test_a_fallback_model_with_a_smaller_window_gets_a_view_that_fits_and_the_state_stays(stream):
    down = ConnectionError("the primary is down")
    model = ScriptedModel([down], context_size=32768, enforce="cl100k")
    small = ScriptedModel(context_size=6000, enforce="cl100k", stream=stream, model="small")
    agent = with_history(
        make_agent(model, offloader=memory_offloader(), model_config=ModelConfig(fallback_model=small)), 20
    )
    before = snapshot(agent)

    events = await events_of(agent.reply_stream(user("And now?")))

    assert [request.refused for request in small.chats] == [False]
    assert sizes(small)[0] <= 6000
    assert sizes(model)[0] > 6000
    assert last_request(small.chats[0].messages) == "And now?"
    assert snapshot(agent).startswith(before)
    assert applied(agent) == []
    assert orphans(small.chats[0].messages) == []
    assert "request.overflow" in told(events)


@pytest.mark.row("X3")
async def test_a_view_tells_the_model_what_was_left_out_and_keeps_pairs_whole():
    model = roomy(3000)
    agent = with_history(make_agent(model, offloader=memory_offloader()), 30)

    await events_of(agent.reply_stream(user("And now?")))

    sent = model.chats[-1].messages
    assert "were left out of this request" in text_of(sent)
    assert orphans(sent) == []
    assert last_request(sent) == "And now?"


@pytest.mark.row("X3")
async def test_what_a_view_shortens_of_a_running_reply_is_whole_in_the_state():
    model = roomy(4000, script=[*fetches(6, size=900), "That is all."])
    agent = make_agent(model, offloader=memory_offloader())

    events = await events_of(agent.reply_stream(user("Look them up.")))

    assert agent.state.context[-1].get_text_content().endswith("That is all.")
    assert EventType.REPLY_END in [event.type for event in events]
    assert orphans(agent.state.context) == []
    assert max(request.input_tokens for request in model.chats if not request.refused) <= 4000
    assert sum(request.refused for request in model.chats) <= 2


@pytest.mark.row("X3")
async def test_a_system_prompt_over_the_window_is_refused_by_name_and_a_shorter_one_works():
    model = ScriptedModel(context_size=4000, enforce="cl100k")
    agent = make_agent(model, prompt=words(9000), offloader=memory_offloader())

    with pytest.raises(ContextUnfitError) as caught:
        await events_of(agent.reply_stream(user("Hello?")))

    assert caught.value.needed_tokens > caught.value.limit_tokens
    assert caught.value.biggest[0][0] == "system prompt"
    assert "system prompt" in str(caught.value)
    assert model.requests == []
    assert [message.get_text_content() for message in agent.state.context if message.role == "user"] == ["Hello?"]
    agent._system_prompt = "Be brief."
    await events_of(agent.reply_stream(user("Are you there?")))
    assert agent.state.context[-1].get_text_content() == "done"


@pytest.mark.row("X3")
async def test_the_refusal_comes_before_the_model_call_begins():
    model = ScriptedModel(context_size=4000, enforce="cl100k")
    agent = make_agent(model, prompt=words(9000))
    seen = []

    async def listen():
        async for event in agent.reply_stream(user("Hello?")):
            seen.append(event.type)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ContextUnfitError):
        await listen()

    assert EventType.MODEL_CALL_START not in seen


@pytest.mark.row("X3")
async def test_what_no_view_makes_fit_is_refused_by_name_where_only_the_provider_knows():
    model = ScriptedModel(context_size=32768, limit=2000, enforce="cl100k")
    agent = make_agent(model, prompt=words(5000), offloader=memory_offloader())

    with pytest.raises(ContextUnfitError) as caught:
        await events_of(agent.reply_stream(user("Hello?")))

    assert "maximum context length is 2000 tokens" in caught.value.__notes__[0]
    assert caught.value.limit_tokens <= 2000
    assert [message.get_text_content() for message in agent.state.context if message.role == "user"] == ["Hello?"]


def many_parallel_calls(number: int) -> list:
    return [call("fetch", topic=f"topic-{i}", size=60) for i in range(number)]


@pytest.mark.row("X3")
async def test_refusing_is_the_default_where_the_last_step_alone_does_not_fit():
    model = ScriptedModel(["hello", many_parallel_calls(60)], context_size=4000, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader())
    await events_of(agent.reply_stream(user("Hello?")))

    with pytest.raises(ContextUnfitError):
        await events_of(agent.reply_stream(user("Look them all up.")))

    assert len(agent.state.context[-1].get_content_blocks("tool_result")) == 60
    assert orphans(agent.state.context) == []


@pytest.mark.row("X3")
async def test_clearing_leaves_the_newest_request_and_everything_else_is_stored():
    model = ScriptedModel(["hello", many_parallel_calls(60), "I start anew."], context_size=4000, enforce="cl100k")
    offloader = memory_offloader()
    config = ContextConfig(overflow=OverflowConfig(on_unfit="clear"))
    agent = make_agent(model, config=config, offloader=offloader)
    await events_of(agent.reply_stream(user("Hello?")))

    events = await events_of(agent.reply_stream(user("Look them all up.")))

    sent = model.chats[-1].messages
    assert last_request(sent) == "Look them all up."
    assert "topic-5" not in text_of([message for message in sent if message.role == "assistant"])
    assert agent.state.context[-1].get_text_content() == "I start anew."
    assert orphans(agent.state.context) == []
    assert EventType.REPLY_END in [event.type for event in events]
    stored = b"".join(
        [
            await offloader.store.get(entry.reference, entry.offset, entry.size)
            async for entry in offloader.store.list(agent.state.session_id)
        ]
    ).decode()
    for i in range(60):
        assert number_of(f"topic-{i}") in stored
    assert receipts(agent)[-1].outcome == "applied"
    assert receipts(agent)[-1].reference is not None
    assert "compression.done" in told(events)


@pytest.mark.row("X3")
async def test_clearing_also_helps_where_only_the_provider_knows_the_window():
    model = ScriptedModel(
        ["hello", many_parallel_calls(60), "I start anew."], context_size=32768, limit=2500, enforce="cl100k"
    )
    config = ContextConfig(overflow=OverflowConfig(on_unfit="clear"))
    agent = make_agent(model, config=config, offloader=memory_offloader())
    await events_of(agent.reply_stream(user("Hello?")))
    await events_of(agent.reply_stream(user("Look them all up.")))

    assert agent.state.context[-1].get_text_content().endswith("I start anew.")
    assert last_request(model.chats[-1].messages) == "Look them all up."
    assert len(agent.state.context[-1].get_content_blocks("tool_result")) == 60
    await events_of(agent.reply_stream(user("And now?")))
    assert not any(request.refused for request in model.chats[-1:])


@pytest.mark.row("X3")
async def test_nothing_is_cleared_that_could_not_be_stored_and_the_reply_goes_on():
    class Broken:
        async def offload_context(self, session_id, msgs, **kwargs):
            raise OSError(28, "No space left on device")

        async def offload_tool_result(self, session_id, tool_result, **kwargs):
            raise OSError(28, "No space left on device")

    model = ScriptedModel(["hello", many_parallel_calls(60)], context_size=4000, enforce="cl100k")
    config = ContextConfig(overflow=OverflowConfig(on_unfit="clear"), offload=OffloadConfig(local_copy=False))
    agent = make_agent(model, config=config, offloader=Broken())
    await events_of(agent.reply_stream(user("Hello?")))

    await events_of(agent.reply_stream(user("Look them all up.")))

    assert agent.state.context[-1].get_text_content() == "done"
    assert not any(request.refused for request in model.requests)
    results = text_of(agent.state.context)
    assert all(number_of(f"topic-{i}") in results for i in range(60))


class Appends(MiddlewareBase):
    """Adds a message to every request, as retrieval does, inside or outside of ctxkit."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def on_model_call(self, agent, input_kwargs, next_handler):
        return await next_handler(messages=[*input_kwargs["messages"], user(self.text)])


@pytest.mark.row("X3")
async def test_what_an_inner_middleware_adds_is_refused_and_answered_with_less():
    model = ScriptedModel(context_size=8000, enforce="cl100k")
    agent = with_history(
        make_agent(model, offloader=memory_offloader(), middlewares=[CompressionMiddleware(), Appends(words(3000))]), 12
    )

    await events_of(agent.reply_stream(user("And now?")))

    assert agent.state.context[-1].get_text_content() == "done"
    assert model.chats[-1].input_tokens <= 8000


async def test_two_agents_learn_apart():
    small, large = roomy(5000, model="small"), ScriptedModel(context_size=32768, enforce="cl100k", model="large")
    shared = CompressionMiddleware()
    first, second = (with_history(make_agent(model, middlewares=[shared])) for model in (small, large))

    await asyncio.gather(
        events_of(first.reply_stream(user("And now?"))), events_of(second.reply_stream(user("And now?")))
    )

    assert [request.refused for request in small.chats] == [True, False]
    assert [request.refused for request in large.chats] == [False]
    assert sizes(large)[0] == sizes(small)[0]
