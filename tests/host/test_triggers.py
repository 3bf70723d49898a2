"""What is counted before each reasoning step, and when ctxkit acts on it."""

import itertools

import pytest
from agentscope.agent import InjectionConfig
from agentscope.message import AssistantMsg, TextBlock
from agentscope.middleware import MiddlewareBase
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, ContextUnfitError, TriggersConfig
from ctxkit.testing import ScriptedModel, tokenizer
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    receipts,
    summary_text,
    text_of,
    told,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

QUIET = InjectionConfig(inject_runtime_state=False)
CL100K = tokenizer("cl100k")


class Addition(MiddlewareBase):
    """Adds a text to the system prompt."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def on_system_prompt(self, agent, current_prompt: str) -> str:
        return f"{current_prompt}\n{self.text}"


def skill_in(folder) -> str:
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: greet\ndescription: {words(500)}\n---\nSay hello.\n")
    return str(folder)


def a_wordy_tool(topic: str) -> str:
    return topic


a_wordy_tool.__doc__ = f"{words(400)}\n\nArgs:\n    topic (str): {words(100)}"


async def measured(agent) -> int:
    """Return what ctxkit counts for the agent's next request, by a compression that finds nothing to do."""
    await agent.compress_context()
    receipt = receipts(agent)[-1]
    assert receipt.outcome == "unneeded"
    return receipt.tokens_before


# What is counted (row A2)


@pytest.mark.row("A2", "A12")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"prompt": words(500)}, id="a longer system prompt"),
        pytest.param({"tools": [fetch, a_wordy_tool]}, id="a tool's schema"),
        pytest.param({"middlewares": [CompressionMiddleware(), Addition(words(500))]}, id="a transform inside"),
        pytest.param({"middlewares": [Addition(words(500)), CompressionMiddleware()]}, id="a transform outside"),
    ],
)
async def test_all_that_a_request_is_made_of_is_counted(change):
    plain = await measured(make_agent(ScriptedModel()))

    assert 450 <= await measured(make_agent(ScriptedModel(), **change)) - plain <= 700


@pytest.mark.row("A2")
@pytest.mark.may_block("the host reads skills on the event loop")
async def test_skills_are_counted(tmp_path):
    plain = make_agent(ScriptedModel())
    skilled = make_agent(ScriptedModel())
    skilled.toolkit = Toolkit(
        tools=[FunctionTool(fetch, is_read_only=True)], skills_or_loaders=[skill_in(tmp_path / "greet")]
    )

    assert await measured(skilled) - await measured(plain) >= 400


@pytest.mark.row("A2")
async def test_summary_and_context_are_counted():
    agent = make_agent(ScriptedModel())
    plain = await measured(agent)

    agent.state.summary = words(500)
    with_summary = await measured(agent)
    agent.state.context.append(user(words(1000)))

    assert 450 <= with_summary - plain <= 700
    assert 900 <= await measured(agent) - with_summary <= 1300


@pytest.mark.row("A2", "X8")
async def test_the_first_count_of_a_request_is_the_models_own_where_the_tokenizer_is_known():
    model = ScriptedModel(["done"], enforce="cl100k")
    agent = make_agent(model, injection_config=QUIET)
    await agent.observe(user(words(2000)))
    counted = await measured(agent)

    await agent.reply(None)

    assert abs(counted - model.chats[0].input_tokens) <= 0.02 * model.chats[0].input_tokens


# When it acts (row A2)


@pytest.mark.row("A2")
@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8, 0.9])
async def test_it_acts_from_the_trigger_on_and_not_below(ratio):
    window = 16384
    model = ScriptedModel([*fetches(80, size=150), "done"], context_size=window, enforce="cl100k")
    config = ContextConfig(trigger_ratio=ratio, reserve_ratio=0.1, context_buffer_ratio=0.1)
    agent = make_agent(model, config=config, offloader=memory_offloader())

    events = await events_of(agent.reply_stream(user("Look up eighty topics.")))

    counts = [request.input_tokens for request in model.chats]
    steps = [b - a for a, b in itertools.pairwise(counts) if b > a]
    receipt = applied(agent)[0]
    assert receipt.limit_tokens == int(ratio * window)
    assert receipt.tokens_before >= int(ratio * window)
    assert receipt.tokens_before <= int(ratio * window) + 2 * max(steps)
    assert receipt.tokens_after < 0.9 * receipt.limit_tokens
    assert max(counts) < ratio * window * 1.02
    assert told(events).count("compression.started") == len(applied(agent))


@pytest.mark.row("A2")
async def test_room_for_the_summary_call_is_left_at_the_highest_trigger():
    model = ScriptedModel([*fetches(60), "done"], context_size=16384, enforce="cl100k")
    agent = make_agent(model, config=ContextConfig(trigger_ratio=0.9), offloader=memory_offloader())

    await agent.reply(user("Look up sixty topics."))

    assert applied(agent)
    assert not any(request.refused for request in model.requests)
    assert all(not receipt.problems for receipt in applied(agent))


@pytest.mark.row("A2")
async def test_a_trigger_in_tokens_acts_whatever_the_window():
    model = ScriptedModel([*fetches(20), "done"], context_size=200_000, enforce="cl100k")
    config = ContextConfig(reserve_ratio=0.005, triggers=TriggersConfig(max_tokens=4000, min_gain_ratio=0.002))
    agent = make_agent(model, config=config, offloader=memory_offloader())

    await agent.reply(user("Look up twenty topics."))

    assert {receipt.limit_tokens for receipt in applied(agent)} == {4000}
    assert max(request.input_tokens for request in model.chats) < 4100


@pytest.mark.row("A2")
async def test_what_another_middleware_adds_to_the_system_prompt_triggers_too():
    window = 8192
    addition = Addition(words(2000))
    model = ScriptedModel([*fetches(14), "done"], context_size=window, enforce="cl100k")
    agent = make_agent(model, middlewares=[addition, CompressionMiddleware()], offloader=memory_offloader())

    await agent.reply(user("Look up fourteen topics."))

    assert len(applied(agent)) == 1
    assert max(request.input_tokens for request in model.chats) < 0.82 * window


# The system prompt alone is over the trigger


@pytest.mark.row("A2", "X10")
@pytest.mark.parametrize("prompt_words", [5600, 6000, 6300])
async def test_a_system_prompt_about_as_large_as_the_trigger_costs_no_summary_a_turn_and_hides_no_user_text(
    prompt_words,
):
    turns = 16
    model = ScriptedModel(context_size=8192, enforce="cl100k")
    agent = make_agent(model, prompt=words(prompt_words), offloader=memory_offloader())
    questions = [f"Question number {i} is about {words(20, seed=str(i))}?" for i in range(turns)]

    for question in questions:
        await agent.reply(user(question))

    assert len(model.summary_requests) <= turns / 2
    assert not any(request.refused for request in model.requests)
    for question, request in zip(questions, model.chats, strict=True):
        assert question in text_of(request.messages[-2:])


@pytest.mark.row("A2", "X3")
async def test_a_system_prompt_over_the_window_is_refused_by_name_and_nothing_is_touched():
    model = ScriptedModel(["never said"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, prompt=words(20_000))

    with pytest.raises(ContextUnfitError) as refusal:
        await agent.reply(user("Hello?"))

    assert refusal.value.biggest[0][0] == "system prompt"
    assert text_of(agent.state.context[:1]) == "Hello?"
    assert model.requests == []


# The layers (row A12)


@pytest.mark.row("A12", "A5")
async def test_the_layers_reach_the_model_in_the_hosts_order():
    model = ScriptedModel([*fetches(25), "done"], context_size=8192, enforce="cl100k")
    agent = make_agent(
        model, middlewares=[CompressionMiddleware(), Addition("Mind the gap.")], offloader=memory_offloader()
    )

    await agent.reply(user("Look up 25 topics."))

    last = model.chats[-1].messages
    assert [message.role for message in last] == ["system", "user", "user", "assistant"]
    assert text_of(last[:1]).startswith("You look things up.")
    assert text_of(last[:1]).endswith("Mind the gap.")
    assert text_of(last[1:2]) == summary_text(agent)
    assert "summary of your previous work" in text_of(last[1:2])
    assert text_of(last[2:3]) == "Look up 25 topics."
    assert last[3].id == agent.state.reply_id


@pytest.mark.row("A12")
async def test_before_the_first_compression_there_is_no_summary_layer():
    model = ScriptedModel(["hello"])
    agent = make_agent(model)

    await agent.reply(user("Hello?"))

    assert [message.role for message in model.chats[0].messages[:2]] == ["system", "user"]
    assert agent.state.summary == ""


@pytest.mark.row("A5")
async def test_the_step_goes_on_with_the_context_that_the_compression_left():
    model = ScriptedModel(["done"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader())
    agent.state.context.extend(
        [*history(25), AssistantMsg(name="scribe", content=[TextBlock(text="The newest answer.")])]
    )

    await agent.reply(user("And now?"))

    [receipt] = applied(agent)
    [request] = model.chats
    assert abs(request.input_tokens - receipt.tokens_after) < 0.05 * receipt.tokens_after
    assert "The newest answer." in text_of(request.messages)
    assert "And now?" in text_of(request.messages)
    assert "Question 0:" in text_of(request.messages[1:2])
