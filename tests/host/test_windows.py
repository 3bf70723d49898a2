"""How large the window is taken to be, its guards, and how it is shared out (rows O6, O7, D2, D8, D10)."""

import pytest
from agentscope.agent import ModelConfig

from ctxkit import (
    ConfigError,
    ContextConfig,
    ContextEvent,
    ContextUnfitError,
    LadderConfig,
    OverflowConfig,
    SummaryConfig,
    TriggersConfig,
    WindowConfig,
)
from ctxkit.testing import ScriptedModel
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    receipts,
    told,
    user,
    words,
)

pytestmark = pytest.mark.asyncio


def config(*, window=None, **settings):
    settings.setdefault("summary", SummaryConfig(prepare=False))
    settings.setdefault("ladder", LadderConfig(rungs=("summarize",)))
    return ContextConfig(window=WindowConfig(**(window or {})), **settings)


def told_of(events, name):
    return [event.value for event in events if isinstance(event, ContextEvent) and event.name.endswith(name)]


async def trigger_of(agent) -> int:
    """Return the trigger that a compression by hand looks at."""
    await agent.compress_context()
    return receipts(agent)[-1].limit_tokens


# Whose word holds (rows O6 and D10)


@pytest.mark.row("O6", "D10")
@pytest.mark.parametrize(
    ("name", "claimed", "window", "tokens"),
    [
        pytest.param("gpt-4o", 64_000, {"max_tokens": 50_000}, 50_000, id="the config first"),
        pytest.param("gpt-4o", 64_000, {"default_tokens": 200_000}, 64_000, id="then the model"),
        pytest.param("gpt-4o", 0, {"default_tokens": 200_000}, 128_000, id="then the table"),
        pytest.param("nobody-knows", 0, {"default_tokens": 200_000}, 200_000, id="then the default"),
        pytest.param("gpt-4o", 64_000, {"cap_tokens": 40_000}, 40_000, id="at most the cap"),
    ],
)
async def test_the_window_is_that_of_config_model_table_or_default_and_at_most_the_cap(name, claimed, window, tokens):
    agent = make_agent(ScriptedModel(model=name, context_size=claimed), config=config(window=window, trigger_ratio=0.5))

    assert await trigger_of(agent) == tokens // 2


@pytest.mark.row("D10")
async def test_a_model_that_nobody_knows_must_say_its_window():
    model = ScriptedModel(["done"], model="qwen2.5:3b", context_size=0)

    with pytest.raises(ConfigError, match=r"'qwen2.5:3b' is not known"):
        await make_agent(model, config=config()).reply(user("Hello."))

    assert not model.chats


@pytest.mark.row("O6")
async def test_a_window_below_the_least_is_refused_before_the_model_is_asked():
    model = ScriptedModel(["done"], context_size=15_999)
    window = {"refuse_below_tokens": 16_000}

    with pytest.raises(ConfigError, match=r"15999 tokens.*refuse_below_tokens is 16000"):
        await make_agent(model, config=config(window=window)).reply(user("Hello."))
    assert not model.chats

    await make_agent(model, config=config(window={**window, "allow_tiny": True})).reply(user("Hello."))
    assert len(model.chats) == 1


@pytest.mark.row("O6")
async def test_a_small_window_is_warned_of_once():
    agent = make_agent(
        ScriptedModel(["one", "two"], context_size=31_999), config=config(window={"warn_below_tokens": 32_000})
    )

    events = [*await events_of(agent.reply_stream(user("a"))), *await events_of(agent.reply_stream(user("b")))]

    (value,) = told_of(events, "window.small")
    assert (value["context_size"], value["warn_below_tokens"]) == (31_999, 32_000)


@pytest.mark.row("O6", "D8")
async def test_a_fallback_model_with_a_smaller_window_gets_a_view_that_fits_it():
    main = ScriptedModel([RuntimeError("down")] * 3, context_size=65_536, enforce="cl100k")
    spare = ScriptedModel(["done"], context_size=8_192, enforce="cl100k", model="spare")
    agent = make_agent(
        main, config=config(), offloader=memory_offloader(), model_config=ModelConfig(fallback_model=spare)
    )
    agent.state.context.extend(history(60))
    before = len(agent.state.context)

    await agent.reply(user("Go on."))

    assert spare.chats[-1].input_tokens <= 8_192
    assert not spare.chats[-1].refused
    assert len(agent.state.context) >= before


# How it is shared out (rows O7 and D2)


@pytest.mark.row("O7")
async def test_in_safeguard_history_has_120_000_of_200_000_tokens():
    window = {"history_ratio": 0.5 * 1.2, "reserve_floor_tokens": 20_000, "estimate_factor": 1.2}
    agent = make_agent(
        ScriptedModel(context_size=200_000), config=config(window=window, trigger_ratio=0.9), prompt="Short."
    )

    trigger = await trigger_of(agent)

    assert 120_000 < trigger < 121_000  # and what stands before the messages


@pytest.mark.row("O7")
@pytest.mark.parametrize(
    ("window", "trigger"),
    [
        pytest.param({"reserve_floor_tokens": 20_000, "history_ratio": 0.7}, 80_000, id="the floor"),
        pytest.param({"reserve_floor_tokens": 20_000, "history_ratio": 0.85}, 85_000, id="clipped to the rest"),
    ],
)
async def test_the_reserve_floor_is_left_free_as_far_as_history_leaves_it(window, trigger):
    settings = config(window=window, trigger_ratio=0.9)
    agent = make_agent(ScriptedModel(context_size=100_000), config=settings, prompt=words(15_000))

    assert await trigger_of(agent) == trigger


@pytest.mark.row("O7")
async def test_estimates_are_raised_until_the_provider_has_reported_a_usage():
    model = ScriptedModel(["done"], context_size=32_768, enforce="cl100k")
    plain = make_agent(ScriptedModel(context_size=32_768), config=config())
    raised = make_agent(model, config=config(window={"estimate_factor": 1.2}))
    for agent in (plain, raised):
        await agent.observe(user(words(5_000)))
        await agent.compress_context()

    before = receipts(raised)[-1].tokens_before
    assert before == pytest.approx(1.2 * receipts(plain)[-1].tokens_before, rel=0.01)

    await raised.reply(None)
    await raised.compress_context()
    assert receipts(raised)[-1].tokens_before == pytest.approx(model.chats[0].input_tokens, rel=0.02)


@pytest.mark.row("O7")
async def test_the_oldest_parts_go_until_the_rest_fits_and_pairs_stay_whole():
    window = {"history_ratio": 0.5}
    model = ScriptedModel([*fetches(60), "done"], context_size=16_384, enforce="cl100k")
    agent = make_agent(model, config=config(window=window, trigger_ratio=0.9), offloader=memory_offloader())

    await agent.reply(user("Look up sixty topics."))

    assert applied(agent)
    assert all(receipt.tokens_before < 0.65 * 16_384 for receipt in applied(agent))
    assert not orphans(agent.state.context)


@pytest.mark.row("D2")
async def test_pressure_is_that_of_the_window_without_the_room_for_the_answer():
    settings = config(
        window={"max_tokens": 32_000},
        triggers=TriggersConfig(pressure_ratio=0.75),
        overflow=OverflowConfig(output_reserve_tokens=4_000),
        trigger_ratio=0.9,
    )

    assert await trigger_of(make_agent(ScriptedModel(), config=settings)) == 21_000


@pytest.mark.row("D2")
async def test_the_newest_messages_stay_and_the_summary_has_its_limit():
    settings = config(
        triggers=TriggersConfig(pressure_ratio=0.75),
        ladder=LadderConfig(rungs=("summarize",), keep_messages=10),
        summary=SummaryConfig(prepare=False, max_tokens=1024),
        trigger_ratio=0.9,
    )
    model = ScriptedModel(context_size=16_384, enforce="cl100k")
    agent = make_agent(model, config=settings, offloader=memory_offloader())
    agent.state.context.extend(history(40))

    await agent.compress_context()

    assert applied(agent)
    kept = sum(max(1, sum(b.type == "tool_result" for b in m.content) * 2) for m in agent.state.context)
    assert 0 < kept <= 14  # a call, a result and a text count each; pairs and the newest request stay whole


@pytest.mark.row("D10")
async def test_a_fixed_overhead_above_the_trigger_is_named_with_its_parts():
    def wordy(topic: str) -> str:
        """Look."""
        return topic

    wordy.__doc__ = words(1_500)
    agent = make_agent(
        ScriptedModel(["one", "two"], context_size=8_192, enforce="cl100k"),
        config=config(trigger_ratio=0.3),
        tools=(fetch, wordy),
        prompt=words(1_500),
    )

    events = [*await events_of(agent.reply_stream(user("a"))), *await events_of(agent.reply_stream(user("b")))]

    (value,) = told_of(events, "window.overhead")
    assert value["fixed_tokens"] > value["trigger_tokens"] == int(0.3 * 8_192)
    assert {"system prompt", "schema of tool 'wordy'"} <= {part["part"] for part in value["parts"]}


@pytest.mark.row("D10", "X3")
async def test_a_refusal_names_the_tools_that_take_the_room():
    def wordy(topic: str) -> str:
        """Look."""
        return topic

    wordy.__doc__ = words(6_000)
    model = ScriptedModel(["one"], context_size=4_096, enforce="cl100k")
    agent = make_agent(model, config=config(), tools=(fetch, wordy))

    with pytest.raises(ContextUnfitError, match=r"schema of tool 'wordy'"):
        await agent.reply(user("a"))


@pytest.mark.row("D8")
async def test_an_overflow_costs_one_retry_at_half_the_window_and_no_summary():
    settings = config(
        overflow=OverflowConfig(retries=1, target_ratio=0.5),
        ladder=LadderConfig(rungs=("summarize",), keep_messages=10),
        trigger_ratio=0.9,
    )
    # The provider takes less than the model claims.
    model = ScriptedModel(["done"], context_size=32_768, limit=16_000, enforce="cl100k")
    agent = make_agent(model, config=settings, offloader=memory_offloader())
    agent.state.context.extend(history(50))

    events = await events_of(agent.reply_stream(user("Go on.")))

    assert [request.refused for request in model.chats] == [True, False]
    assert model.chats[-1].input_tokens <= 8_000
    assert not model.summary_requests
    assert "request.overflow" in told(events)
