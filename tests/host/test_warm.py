"""The warm summary call: it extends the request that was really sent, so a prompt cache serves nearly all of it (row X5)."""

from collections.abc import Sequence

import pytest
from agentscope.message import SystemMsg, ToolCallBlock
from agentscope.middleware import MiddlewareBase

from ctxkit import CompressionMiddleware, ContextConfig, LadderConfig, SummaryConfig, prefix_audit, wire_request
from ctxkit.testing import ScriptedModel, ScriptedRequest, call
from tests.host.agents import applied, fetches, history, make_agent, memory_offloader, text_of, user, words
from tests.host.summaries import GOOD

pytestmark = pytest.mark.asyncio

WINDOW = 80_000
LARGE = 60_000
HIT = 0.98


def config(**summary) -> ContextConfig:
    return ContextConfig(
        trigger_ratio=0.8,
        summary=SummaryConfig(prepare=False, retry_delay_s=0.0, **summary),
        ladder=LadderConfig(rungs=("summarize",)),
    )


def a_model(script: Sequence[object], **settings) -> ScriptedModel:
    return ScriptedModel([*script, "done"], context_size=WINDOW, enforce="cl100k", **settings)


def hits(model: ScriptedModel) -> list[tuple[int, float]]:
    """Return of each summary call the tokens of the request sent before it, and the share of them that it began with."""
    pairs = zip(model.requests, model.requests[1:], strict=False)
    return [
        (before.input_tokens, request.reused_tokens / before.input_tokens)
        for before, request in pairs
        if request.kind == "summary" and before.kind == "chat"
    ]


def assert_warm(model: ScriptedModel, *, calls: int = 1) -> None:
    found = hits(model)
    assert len(found) >= calls
    assert [hit for tokens, hit in found if tokens < LARGE or hit < HIT] == []


def results_in(request: ScriptedRequest) -> int:
    """Return how many tool results a request has."""
    return sum(block.type == "tool_result" for message in request.messages for block in message.content)


class Appends(MiddlewareBase):
    """Puts what it knows behind each request, as retrieval does; nothing of it stays in the context."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_model_call(self, agent, input_kwargs, next_handler):
        self.calls += 1
        return await next_handler(messages=[*input_kwargs["messages"], user(f"Note {self.calls}: {words(60)}")])


class Inserts(MiddlewareBase):
    """Puts a message behind the system prompt, another one at each call."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_model_call(self, agent, input_kwargs, next_handler):
        self.calls += 1
        first, *rest = input_kwargs["messages"]
        return await next_handler(messages=[first, user(f"Call {self.calls} of the day."), *rest])


class Prompts(MiddlewareBase):
    """Writes the number of the call into the system prompt."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_system_prompt(self, agent, current_prompt):
        self.calls += 1
        return f"{current_prompt} This is look {self.calls}."


@pytest.mark.row("X5")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_after_a_long_run_the_summary_call_begins_with_the_request_that_was_sent(stream):
    model = a_model(fetches(30, size=2400), stream=stream)
    agent = make_agent(model, config=config(), offloader=memory_offloader())

    await agent.reply(user("Look up thirty topics."))

    assert_warm(model)
    assert {receipt.summary for receipt in applied(agent)} == {"warm"}


@pytest.mark.row("X5")
async def test_after_a_compression_the_next_summary_call_is_warm_again():
    model = a_model(fetches(75, size=2400))
    agent = make_agent(model, config=config(), offloader=memory_offloader())

    await agent.reply(user("Look up seventy-five topics."))

    assert len(applied(agent)) >= 2
    assert_warm(model, calls=2)


@pytest.mark.row("X5")
async def test_parallel_calls_are_answered_in_what_a_summary_call_extends():
    def three(number: int) -> list[ToolCallBlock]:
        return [call("fetch", topic=f"{number}-{part}", size=1600) for part in range(3)]

    model = a_model([three(number) for number in range(16)])
    agent = make_agent(model, config=config(), offloader=memory_offloader())

    await agent.reply(user("Look up many topics, three at a time."))

    assert_warm(model)


@pytest.mark.row("X5")
@pytest.mark.parametrize("kind", [Appends, Inserts, Prompts])
@pytest.mark.parametrize("is_inner", [True, False], ids=["inner", "outer"])
async def test_what_another_middleware_puts_into_a_request_stays_in_what_a_summary_call_extends(kind, is_inner):
    model = a_model(fetches(30, size=2400))
    middlewares = [CompressionMiddleware(), kind()]
    agent = make_agent(
        model,
        config=config(),
        offloader=memory_offloader(),
        middlewares=middlewares if is_inner else middlewares[::-1],
    )

    await agent.reply(user("Look up thirty topics."))

    assert_warm(model)
    summary = model.summary_requests[0]
    before = model.requests[model.requests.index(summary) - 1]
    assert text_of(summary.messages).startswith(text_of(before.messages))


@pytest.mark.row("X5")
@pytest.mark.parametrize("kind", [None, Appends, Inserts, Prompts])
async def test_a_summary_call_in_the_background_begins_with_the_request_that_it_extends(kind):
    # The agent goes on meanwhile: how many requests are sent beside it depends on the machine. What it extends has
    # all of its results, or all but the newest.
    model = a_model(fetches(30, size=2400))
    settings = ContextConfig(
        trigger_ratio=0.8, summary=SummaryConfig(retry_delay_s=0.0), ladder=LadderConfig(rungs=("summarize",))
    )
    middlewares = [CompressionMiddleware(), *([kind()] if kind else [])]
    agent = make_agent(model, config=settings, offloader=memory_offloader(), middlewares=middlewares)

    await agent.reply(user("Look up thirty topics."))

    assert applied(agent)[0].is_prepared
    for summary in model.summary_requests:
        place = model.requests.index(summary)
        after = await wire_request(model, summary.messages, summary.tools)
        new = [results_in(summary) - results_in(sent) for sent in model.requests[:place]]
        near = [sent for sent, more in zip(model.requests[:place], new, strict=True) if more in {0, 1}][-2:]
        before = [await wire_request(model, sent.messages, sent.tools) for sent in near]
        assert max([(await prefix_audit(sent, after)).share for sent in before]) == 1.0


@pytest.mark.row("X5")
async def test_the_newest_finished_exchange_is_part_of_what_is_summarised():
    model = a_model(fetches(30, size=2400))
    agent = make_agent(
        model, config=config(), offloader=memory_offloader(), middlewares=[CompressionMiddleware(), Appends()]
    )

    await agent.reply(user("Look up thirty topics."))

    summary = model.summary_requests[0]
    before = model.requests[model.requests.index(summary) - 1]
    new = text_of(summary.messages).removeprefix(text_of(before.messages))
    results = [block for message in summary.messages for block in message.content if block.type == "tool_result"]
    sent = [block for message in before.messages for block in message.content if block.type == "tool_result"]
    assert len(results) == len(sent) + 1
    assert text_of([SystemMsg(name="system", content=results[-1].output)]) in new


@pytest.mark.row("X5")
async def test_a_summary_call_beside_an_open_call_ends_before_it():
    model = a_model(fetches(3))
    agent = make_agent(model, config=config(), offloader=memory_offloader())
    agent.state.context.extend(history(10))
    await agent.reply(user("Look up three topics."))
    agent.state.context[-1].content.append(call("fetch", topic="open"))

    await agent._compress_context_middlewares[0].compact(agent)

    [summary] = model.summary_requests
    calls = [block.id for message in summary.messages for block in message.content if block.type == "tool_call"]
    results = [block.id for message in summary.messages for block in message.content if block.type == "tool_result"]
    assert calls == results
    assert summary.reused_tokens / model.chats[-1].input_tokens >= 0.97  # but for the few tokens that prime an answer


@pytest.mark.row("X5")
async def test_a_context_that_was_edited_since_is_summarised_as_it_is_now():
    model = a_model(fetches(3))
    agent = make_agent(model, config=config(), offloader=memory_offloader())
    agent.state.context.extend(history(10))
    await agent.reply(user("Look up three topics."))
    gone = text_of(agent.state.context[:2])
    agent.state.context = agent.state.context[2:]

    await agent._compress_context_middlewares[0].compact(agent)

    assert gone not in text_of(model.summary_requests[0].messages)


@pytest.mark.row("X5")
async def test_keywords_that_a_middleware_gives_the_model_are_given_again():
    class Asks(MiddlewareBase):
        async def on_model_call(self, agent, input_kwargs, next_handler):
            model = input_kwargs["current_model"]
            rest = {name: input_kwargs[name] for name in ("messages", "tools", "tool_choice")}
            return await model(**rest, service_tier="flex")

    model = a_model(fetches(3))
    agent = make_agent(
        model, config=config(), offloader=memory_offloader(), middlewares=[CompressionMiddleware(), Asks()]
    )
    agent.state.context.extend(history(10))
    await agent.reply(user("Look up three topics."))
    await agent._compress_context_middlewares[0].compact(agent)

    assert [dict(request.options) for request in model.requests] == [{"service_tier": "flex"}] * len(model.requests)


@pytest.mark.row("X5")
async def test_a_tool_call_in_the_answer_is_refused_and_all_calls_are_paid_for():
    class Eager(ScriptedModel):
        async def _summarise(self, messages, tools):
            if len(self.summary_requests) == 1:
                return call("fetch", topic="never")
            return await super()._summarise(messages, tools)

    model = Eager(["done"], context_size=WINDOW, summaries=GOOD, enforce="cl100k")
    agent = make_agent(model, config=config(), offloader=memory_offloader())
    agent.state.context.extend(history(25))
    await agent.reply(user("Go on."))
    await agent._compress_context_middlewares[0].compact(agent)

    [receipt] = applied(agent)
    first, second = model.summary_requests
    assert [request.tool_choice for request in (first, second)] == [None, "none"]
    assert receipt.summary == "warm"
    assert receipt.problems[0].startswith("the model called fetch")
    booked = agent.state.context[-1].usage
    assert booked.input_tokens >= first.input_tokens + second.input_tokens
    assert "never" not in text_of(agent.state.context)


@pytest.mark.row("X5")
async def test_a_model_that_nothing_can_stand_in_for_is_called_all_the_same():
    class Closed(ScriptedModel):
        def __init_subclass__(cls, **keywords: object) -> None:
            raise TypeError("this class is closed")

    model = Closed(["Hello."], context_size=WINDOW)
    agent = make_agent(model, config=config())

    answer = await agent.reply(user("Hello?"))

    assert answer.get_text_content() == "Hello."


@pytest.mark.row("X5")
async def test_a_stand_in_of_the_model_is_the_model_to_whoever_looks_at_it():
    seen = []

    class Looks(MiddlewareBase):
        async def on_model_call(self, agent, input_kwargs, next_handler):
            seen.append(input_kwargs["current_model"])
            input_kwargs["current_model"].note = "seen"
            return await next_handler()

    model = a_model([])
    agent = make_agent(model, config=config(), middlewares=[CompressionMiddleware(), Looks()])
    await agent.reply(user("Hello."))

    [stand_in] = seen
    assert isinstance(stand_in, ScriptedModel)
    assert type(stand_in).__name__ == "ScriptedModel"
    assert (stand_in.model, stand_in.context_size, stand_in.requests) == (model.model, WINDOW, model.requests)
    assert model.note == "seen"
