"""A model of its own for summaries: asked first, in its own window, and the agent's own model where it fails (row D4)."""

import asyncio
from typing import Any

import pytest

from ctxkit import CompressionMiddleware, ConfigError, ContextConfig, SummaryConfig
from ctxkit.testing import ScriptedModel
from tests.host.agents import applied, history, make_agent, memory_offloader, summary_text, text_of, user
from tests.host.summaries import GOOD, WINDOW, answers, lowered

pytestmark = pytest.mark.asyncio

CHEAP = {**GOOD, "current_state": "The cheap model wrote this."}


def cheap_model(summaries: Any = CHEAP, *, context_size: int = WINDOW, **settings: Any) -> ScriptedModel:
    return ScriptedModel(context_size=context_size, summaries=summaries, enforce="cl100k", model="cheap", **settings)


def config(cheap: ScriptedModel | None, **summary: Any) -> ContextConfig:
    section = SummaryConfig(model=cheap, retry_delay_s=0.0, **{"attempts": 1, "prepare": False, **summary})
    return lowered(summary=section)


def an_agent(config: ContextConfig, summaries: Any = GOOD, *, turns: int = 25):
    model = ScriptedModel(["done"], context_size=WINDOW, summaries=summaries, enforce="cl100k")
    middleware = CompressionMiddleware()
    agent = make_agent(model, config=config, offloader=memory_offloader(), middlewares=[middleware])
    agent.state.context.extend(history(turns))
    return agent, model, middleware


@pytest.mark.row("D4")
async def test_the_summary_is_asked_of_the_model_that_is_set_for_it():
    cheap = cheap_model()
    agent, model, _ = an_agent(config(cheap))

    await agent.compress_context()

    assert (len(cheap.summary_requests), len(model.summary_requests)) == (1, 0)
    assert applied(agent)[0].summary == "structured"
    assert CHEAP["current_state"] in summary_text(agent)


@pytest.mark.row("D4")
async def test_it_is_never_handed_the_agents_own_request_and_tools():
    cheap = cheap_model()
    agent, _, middleware = an_agent(config(cheap))
    await agent.reply(user("Go on."))
    agent.state.context.extend(history(25, prefix="more"))

    await middleware.compact(agent)

    tools = [tool["function"]["name"] for request in cheap.requests for tool in request.tools]
    assert set(tools) == {"generate_structured_output"}
    assert "You look things up." not in text_of(m for request in cheap.requests for m in request.messages)


@pytest.mark.row("D4")
async def test_one_call_may_have_a_summary_model_that_the_agent_has_not():
    cheap = cheap_model()
    agent, model, _ = an_agent(config(None))

    await agent.compress_context(context_config=config(cheap))

    assert (len(cheap.summary_requests), len(model.summary_requests)) == (1, 0)


@pytest.mark.row("D4")
async def test_what_its_smaller_window_cannot_take_at_once_is_summarised_in_stages():
    cheap = cheap_model(context_size=4096)
    agent, model, _ = an_agent(config(cheap))

    await agent.compress_context()

    assert applied(agent)[0].summary == "staged"
    assert len(cheap.summary_requests) > 2
    assert not any(request.refused for request in cheap.requests)
    assert model.summary_requests == []


@pytest.mark.row("D4")
async def test_where_it_fails_the_agents_own_model_is_asked():
    cheap = cheap_model(RuntimeError("out of credit"))
    agent, model, _ = an_agent(config(cheap))

    await agent.compress_context()

    [receipt] = applied(agent)
    assert receipt.summary == "warm"
    assert any("out of credit" in problem for problem in receipt.problems)
    assert len(model.summary_requests) == 1
    assert GOOD["current_state"] in summary_text(agent)


@pytest.mark.row("D4")
async def test_where_both_fail_the_summary_is_made_without_a_model():
    cheap = cheap_model(RuntimeError("out of credit"))
    agent, _, _ = an_agent(config(cheap), RuntimeError("overloaded"))

    await agent.compress_context()

    [receipt] = applied(agent)
    assert receipt.summary == "extractive"
    assert [name for name in ("out of credit", "overloaded") if name not in "".join(receipt.problems)] == []


@pytest.mark.row("D4")
async def test_one_that_never_answers_leaves_the_agents_own_model_its_time():
    cheap = cheap_model(lambda messages: asyncio.Event().wait())
    agent, model, _ = an_agent(config(cheap, timeout_s=3.0))

    await agent.compress_context()

    assert applied(agent)[0].summary == "warm"
    assert len(model.summary_requests) == 1


@pytest.mark.row("D4")
async def test_what_both_models_cost_is_booked_on_the_reply():
    cheap = cheap_model(answers({"task_overview": "not enough"}))
    agent, model, _ = an_agent(config(cheap))

    await agent.compress_context()

    spent = sum(request.input_tokens for request in (*cheap.requests, *model.requests))
    assert len(cheap.requests) >= 1
    assert len(model.requests) == 1
    assert 0 < agent.state.context[-1].usage.input_tokens <= spent
    assert agent.state.context[-1].usage.input_tokens >= model.requests[0].input_tokens


@pytest.mark.row("D4")
async def test_its_refusals_teach_its_own_window_and_not_the_agents():
    cheap = cheap_model(context_size=WINDOW, limit=5000)
    agent, _, _ = an_agent(config(cheap))

    await agent.compress_context()

    limits = agent.state.middle_context["ctxkit"]["meter"]["limits"]
    assert limits == {"ScriptedModel:cheap": 5000}
    assert applied(agent)[0].summary == "staged"
    assert CHEAP["current_state"] in summary_text(agent)


@pytest.mark.row("D4")
async def test_another_provider_gets_no_secret_of_the_history():
    secret = "sk-proj-" + "a1B2c3D4e5" * 5
    cheap = cheap_model()
    agent, _, _ = an_agent(config(cheap))
    agent.state.context[0].content[0].text += f" The key is {secret}."

    await agent.compress_context()

    assert secret not in text_of(m for request in cheap.requests for m in request.messages)


@pytest.mark.row("D4")
async def test_what_is_no_model_is_refused_when_the_config_is_made():
    with pytest.raises(ConfigError, match=r"SummaryConfig\.model is 'gpt-mini'"):
        SummaryConfig(model="gpt-mini")
