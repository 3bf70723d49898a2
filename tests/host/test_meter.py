"""Token estimates through real replies: anchored on reported usage, per model, kept over a restart, without a network (row X8)."""

import json
import socket
from itertools import pairwise

import pytest
from agentscope.middleware import MiddlewareBase
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, fetches, make_agent, memory_offloader, number_of, receipts, text_of, user, words

pytestmark = [pytest.mark.asyncio, pytest.mark.row("X8")]

WINDOW = 16384
KINDS = {
    "prose": lambda n: words(250, seed=str(n)),
    "code": lambda n: "\n".join(f"def f_{n}_{i}(x: int) -> int:\n    return x * {i} + {n}" for i in range(30)),
    "json": lambda n: json.dumps([{"id": n * 100 + i, "name": f"item {i}", "ok": i % 2 == 0} for i in range(40)]),
    "cjk": lambda n: "".join(chr(0x4E00 + (n * 97 + i * 31) % 5000) for i in range(400)),
    "hex": lambda n: "\n".join(number_of(f"{n}-{i}") + number_of(f"{i}/{n}") for i in range(40)),
    "log": lambda n: "\n".join(
        f"2026-11-{n % 28 + 1:02d}T12:{i:02d}:07.123Z INFO worker-{n} request {i * 7919} took {i * 13} ms"
        for i in range(30)
    ),
}


def look(kind: str, number: int) -> str:
    """Look at something.

    Args:
        kind (str): What kind of thing.
        number (int): Which one.
    """
    return KINDS[kind](number)


def looks(number: int, kinds=tuple(KINDS)):
    return [call("look", kind=kinds[i % len(kinds)], number=i) for i in range(number)]


class Estimates(MiddlewareBase):
    """Notes what ctxkit estimates of each request just before it is sent; stands inside of ctxkit's middleware."""

    def __init__(self, middleware: CompressionMiddleware) -> None:
        self.middleware, self.noted = middleware, []

    async def on_model_call(self, agent, input_kwargs, next_handler):
        gauge = self.middleware._agents.get(agent).engine.gauge
        model = input_kwargs["current_model"]
        key = f"{type(model).__name__}:{model.model}"
        weight = await gauge.meter.weigh_request(input_kwargs["messages"], input_kwargs["tools"], model_key=key)
        self.noted.append((model.model, gauge.meter.estimate(weight, model_key=key)))
        return await next_handler()


def an_agent(*script, model=None, tools=(look,), **settings):
    middleware = CompressionMiddleware()
    estimates = Estimates(middleware)
    model = model or ScriptedModel([*script, "done"], context_size=WINDOW, enforce="cl100k")
    settings = {"offloader": memory_offloader(), **settings}
    return make_agent(model, tools=tools, middlewares=[middleware, estimates], **settings), estimates


def errors(model, estimates) -> list[float]:
    true = [request.input_tokens for request in model.chats]
    guessed = [tokens for name, tokens in estimates.noted if name == model.model]
    return [abs(guess - tokens) / tokens for guess, tokens in zip(guessed, true, strict=True)]


async def test_after_the_first_usage_the_estimate_is_within_a_hundredth_through_compressions():
    agent, estimates = an_agent(*looks(180))

    await agent.reply(user("Look at 180 things."))

    assert len(applied(agent)) >= 3
    off = sorted(errors(agent.model, estimates)[1:])
    assert off[int(0.95 * len(off))] <= 0.01
    assert off[-1] <= 0.03


@pytest.mark.parametrize("kind", KINDS)
async def test_each_class_of_content_is_estimated_within_a_hundredth(kind):
    agent, estimates = an_agent(*looks(60, kinds=[kind]))

    await agent.reply(user("Look at sixty things."))

    off = sorted(errors(agent.model, estimates)[1:])
    assert off[int(0.95 * len(off))] <= 0.01


async def test_with_a_tokenizer_that_is_not_the_prior_the_estimate_stays_close_and_nothing_is_refused():
    model = ScriptedModel([*looks(120), "done"], context_size=WINDOW, enforce="o200k")
    agent, estimates = an_agent(model=model)

    await agent.reply(user("Look at 120 things."))

    assert applied(agent)
    off = sorted(errors(model, estimates)[1:])
    assert off[int(0.95 * len(off))] <= 0.05
    assert not any(request.refused for request in model.requests)


async def test_streamed_answers_are_learnt_from_too():
    model = ScriptedModel([*looks(40), "done"], context_size=WINDOW, enforce="cl100k", stream=True)
    agent, estimates = an_agent(model=model)

    await agent.reply(user("Look at forty things."))

    assert max(errors(model, estimates)[1:]) <= 0.02


async def test_a_compression_reports_tokens_that_come_true():
    agent, _ = an_agent(*looks(120))

    await agent.reply(user("Look at 120 things."))

    after = [later for former, later in pairwise(agent.model.chats) if later.input_tokens < former.input_tokens]
    assert len(after) == len(applied(agent)) >= 2
    for receipt, request in zip(applied(agent), after, strict=True):
        assert abs(receipt.tokens_after - request.input_tokens) <= 0.02 * request.input_tokens


async def test_another_model_has_an_anchor_of_its_own():
    plain = ScriptedModel([*looks(12), "done"], context_size=WINDOW, enforce="cl100k", model="plain")
    double = ScriptedModel([*looks(12), "done"], context_size=WINDOW * 2, enforce=len, model="letters")
    agent, estimates = an_agent(model=plain)
    await agent.reply(user("Look at twelve things."))

    agent.model = double
    await agent.reply(user("Look at twelve more."))
    agent.model = plain
    plain._script = iter(["back"])
    await agent.reply(user("And back."))

    assert max(errors(double, estimates)[1:]) <= 0.15
    assert errors(plain, estimates)[-1] <= 0.02


async def test_what_was_learnt_survives_a_restart():
    model = ScriptedModel([*looks(60), "done"], context_size=WINDOW, enforce="o200k")
    agent, _ = an_agent(model=model)
    await agent.reply(user("Look at sixty things."))
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    later = ScriptedModel(["fine"], context_size=WINDOW, enforce="o200k")
    restarted, estimates = an_agent(model=later, state=state)

    await restarted.reply(user("Go on."))

    assert errors(later, estimates)[0] <= 0.02


async def test_no_network_is_touched(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a network call")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    agent, _ = an_agent(*looks(60))

    await agent.reply(user("Look at sixty things."))

    assert applied(agent)
    assert "done" in text_of(agent.state.context)


async def test_a_report_that_makes_no_sense_is_ignored():
    class Liar(ScriptedModel):
        async def _usage(self, request, blocks, started):
            usage = await super()._usage(request, blocks, started)
            usage.input_tokens, usage.cache_input_tokens = 3, 0
            return usage

    model = Liar([*fetches(30), "done"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader(), config=ContextConfig(trigger_ratio=0.7))

    await agent.reply(user("Look up thirty topics."))

    assert applied(agent)
    assert not any(request.refused for request in model.requests)
    assert receipts(agent)[0].tokens_before >= int(0.7 * 8192)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_usage_that_cannot_be_read_costs_no_answer(stream):
    class Odd(ScriptedModel):
        async def __call__(self, *args, **kwargs):
            answer = await super().__call__(*args, **kwargs)
            return self._oddly(answer) if stream else self._odd(answer)

        def _odd(self, answer):
            if answer.usage is not None:
                answer.usage.input_tokens = "7"  # the host takes it
            return answer

        async def _oddly(self, answer):
            async for chunk in answer:
                yield self._odd(chunk)

    agent = make_agent(Odd(["Here you are."], stream=stream, context_size=WINDOW))

    assert "Here you are." in text_of([await agent.reply(user("Go."))])
