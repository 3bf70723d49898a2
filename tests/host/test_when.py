"""When an automatic compression comes, by prices, counts and boundaries, and what the agent is told of it."""

import itertools
from math import ceil

import pytest
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.agent import InjectionConfig
from agentscope.event import HintBlockEvent
from agentscope.message import HintBlock
from agentscope.state import AgentState

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    CostConfig,
    LadderConfig,
    MemoryStore,
    Price,
    StoreOffloader,
    SummaryConfig,
    TriggersConfig,
)
from ctxkit.host._codec import HostCodec
from ctxkit.host.context_config import settings_of
from ctxkit.testing import ScriptedModel
from tests.host.agents import applied, events_of, fetches, make_agent, memory_offloader, told, user, words

pytestmark = pytest.mark.asyncio

WINDOW = 200_000
QUIET = InjectionConfig(inject_runtime_state=False)
PRICE = Price(cached=0.1, written=1.25, output=5)
STEPS = 60
"""Steps of about 700 tokens: 42,000 in all, a fifth of the window."""


def config(*, price=PRICE, mode="cost", **changes) -> ContextConfig:
    """Return a config of mode cost by known prices, in which nothing but the trigger says when a summary is made."""
    changes.setdefault("triggers", TriggersConfig(mode=mode))
    return ContextConfig(
        cost=CostConfig(price=price),
        summary=SummaryConfig(prepare=False),
        ladder=LadderConfig(rungs=("summarize",)),
        **changes,
    )


async def engine_of(agent):
    """Return the engine that serves an agent."""
    middleware = next(m for m in agent._compress_context_middlewares if isinstance(m, CompressionMiddleware))
    return await middleware.engine_of(agent)


def working(settings, *, steps: int = STEPS, window: int = WINDOW, **kwargs):
    """Return an agent that has so many results to fetch, and its model."""
    model = ScriptedModel([*fetches(steps, size=600), "done"], context_size=window, enforce="cl100k")
    kwargs.setdefault("offloader", memory_offloader())
    return make_agent(model, config=settings, injection_config=QUIET, **kwargs), model


class Looks:
    """Remembers what each look of an agent's engine saw."""

    def __init__(self, engine) -> None:
        self.seen = []
        self._look = engine.look
        engine.look = self

    async def __call__(self, settings):
        look = await self._look(settings)
        self.seen.append(look)
        return look


# By price (row X7)


@pytest.mark.row("X7")
async def test_it_compresses_at_the_tokens_that_the_look_tells_and_at_no_step_before():
    agent, _ = working(config())
    looks = Looks(await engine_of(agent))

    await agent.reply(user("Look up sixty topics."))

    due = [look for look in looks.seen if look.is_due]
    receipts = applied(agent)
    assert len(receipts) == len(due) >= 2
    for look, receipt in zip(due, receipts, strict=True):
        assert receipt.limit_tokens == look.trigger_tokens
        assert receipt.tokens_before == look.tokens >= look.trigger_tokens
        assert "mode cost" in look.why
    assert all(look.tokens < look.trigger_tokens for look in looks.seen if not look.is_due)


@pytest.mark.row("X7")
async def test_a_known_price_compresses_long_before_the_window_is_full_and_a_cheaper_cache_later():
    firsts = []
    for cached in (0.2, 0.02):
        agent, _ = working(config(price=Price(cached=cached, written=1, output=4)))
        await agent.reply(user("Look up sixty topics."))
        firsts.append(applied(agent)[0].tokens_before)

    assert firsts[0] < firsts[1] < 0.5 * WINDOW


@pytest.mark.row("X7")
async def test_claude_is_priced_without_a_cache_until_its_cache_is_asked_for_and_the_receipt_says_so():
    whys, firsts = [], []
    for asks in (False, True):
        settings = config().replace(cost=CostConfig(ask_for_cache=asks))
        model = ScriptedModel(
            [*fetches(STEPS, size=600), "done"], context_size=WINDOW, enforce="cl100k", model="claude-sonnet-5"
        )
        agent = make_agent(model, config=settings, injection_config=QUIET, offloader=memory_offloader())
        await agent.reply(user("Look up sixty topics."))
        whys.append(applied(agent)[0].why)
        firsts.append(applied(agent)[0].tokens_before)

    assert firsts[0] < firsts[1]
    assert ["not asked for" in why for why in whys] == [True, False]
    assert all("LiteLLM" in why for why in whys)


@pytest.mark.row("X7")
async def test_no_second_compression_comes_before_half_a_headroom_has_grown():
    agent, _ = working(config(), steps=2 * STEPS)
    looks = Looks(await engine_of(agent))

    await agent.reply(user("Look up many topics."))

    headrooms = [look.decision.headroom_tokens for look in looks.seen if look.is_due]
    receipts = applied(agent)
    assert len(receipts) >= 3
    for before, after, room in zip(receipts, receipts[1:], headrooms[1:], strict=False):
        assert after.tokens_before - before.tokens_after >= room / 2
        assert after.tokens_before - after.tokens_after >= room / 2


@pytest.mark.row("X7")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"trigger_ratio": 0.5}, id="a ratio that was set"),
        pytest.param({"price": None}, id="a model without a price"),
    ],
)
async def test_a_ratio_that_was_set_and_a_model_without_a_price_go_by_the_ratio(changes):
    window = 40_000
    agent, _ = working(config(reserve_ratio=0.1, **changes), window=window)

    await agent.reply(user("Look up sixty topics."))

    ratio = changes.get("trigger_ratio", 0.8)
    assert {receipt.limit_tokens for receipt in applied(agent)} == {int(ratio * window)}


@pytest.mark.row("X7")
async def test_a_call_by_hand_goes_by_the_ratio_whatever_the_price():
    agent, _ = working(config(), steps=25)
    await agent.reply(user("Look up some topics."))
    assert not applied(agent)

    await agent.compress_context()

    engine = await engine_of(agent)
    assert engine.last_receipt.outcome == "unneeded"
    assert engine.last_receipt.limit_tokens == int(0.8 * WINDOW)


@pytest.mark.row("X7")
async def test_the_hosts_own_config_is_balanced_where_it_sets_no_ratio():
    assert not settings_of(HostContextConfig()).is_ratio_explicit
    assert settings_of(HostContextConfig(trigger_ratio=0.8)).is_ratio_explicit
    assert settings_of(ContextConfig()).triggers.mode == "balanced"


@pytest.mark.row("X7")
async def test_quality_waits_for_the_safe_limit():
    window = 40_000
    agent, model = working(config(mode="quality"), window=window)

    await agent.reply(user("Look up sixty topics."))

    [receipt, *_] = applied(agent)
    assert receipt.tokens_before > 0.9 * window
    assert not any(request.refused for request in model.requests)


@pytest.mark.row("X7")
async def test_it_acts_earlier_where_a_new_turn_begins():
    looks = []
    for turns in (1, STEPS):
        script = [*fetches(STEPS, size=600), "done"] if turns == 1 else None
        steps = script or [each for one in fetches(STEPS, size=600) for each in (one, "noted")]
        model = ScriptedModel(steps, context_size=WINDOW, enforce="cl100k")
        agent = make_agent(model, config=config(), injection_config=QUIET, offloader=memory_offloader())
        seen = Looks(await engine_of(agent)).seen
        for turn in range(turns):
            await agent.reply(user(f"Go on with part {turn}."))
        looks.append(next(look for look in seen if look.is_due))

    within, between = looks
    assert "a new turn begins" in between.why
    assert "a new turn begins" not in within.why
    share = (between.tokens - between.floor_tokens) / between.decision.headroom_tokens
    assert 0.7 <= share < 0.8
    assert between.tokens < within.tokens


@pytest.mark.row("X7")
async def test_old_results_are_cleared_between_two_summaries_and_no_summary_is_asked_for_that_clearing_makes_needless():
    settings = ContextConfig(cost=CostConfig(price=PRICE))  # as it is, summaries prepared
    agent, model = working(settings, steps=4 * STEPS)

    await agent.reply(user("Look up many topics."))

    made = [receipt.summary for receipt in applied(agent)]
    assert made.count("warm") >= 2
    assert made.count("none") >= 2
    assert len(model.summary_requests) - made.count("warm") <= 1  # one may have been prepared for the next


# By count (rows C1 and D9 ask for it)


@pytest.mark.row("X7")
async def test_too_many_messages_are_halved_whatever_tokens_cost():
    triggers = TriggersConfig(max_messages=40)
    agent, _ = working(config(triggers=triggers), steps=45)

    await agent.reply(user("Look up 45 topics."))

    engine = await engine_of(agent)
    assert 2 <= len(applied(agent)) <= 8
    assert sum(map(sum, engine.view().counts)) <= 42
    assert all(receipt.tokens_before < 20_000 for receipt in applied(agent))


# The cooldown (row D7)


def chatting(state: AgentState | None, store: MemoryStore, triggers: TriggersConfig):
    """Return an agent whose every turn is larger than its trigger, and that may compress at each."""
    model = ScriptedModel(context_size=32_000, enforce="cl100k", after=words(300))
    settings = config(triggers=triggers, trigger_ratio=0.2, reserve_ratio=0.02)
    state = {} if state is None else {"state": state}
    return make_agent(
        model, config=settings, injection_config=QUIET, offloader=StoreOffloader(store, HostCodec()), **state
    )


@pytest.mark.row("D7")
async def test_two_turns_behind_a_compression_go_without_one_also_over_a_restart():
    store, state, turns = MemoryStore(), None, []
    for turn in range(9):  # a new process at each turn
        agent = chatting(state, store, TriggersConfig(cooldown_turns=2))
        await agent.reply(user(f"Part {turn}: {words(2_500, seed=str(turn))}"))
        if applied(agent):
            turns.append(turn)
        state = AgentState.model_validate_json(agent.state.model_dump_json())

    assert len(turns) >= 2
    assert {b - a for a, b in itertools.pairwise(turns)} == {3}


@pytest.mark.row("D7")
async def test_a_cooldown_never_holds_back_what_is_needed_to_fit():
    store = MemoryStore()
    agent = chatting(None, store, TriggersConfig(cooldown_turns=50))

    for turn in range(30):
        await agent.reply(user(f"Part {turn}: {words(2_500, seed=str(turn))}"))

    assert len(applied(agent)) >= 3
    assert not any(request.refused for request in agent.model.requests)


# Failures in a row


class FailingStore(MemoryStore):
    """Takes nothing."""

    async def append(self, session_id, records):
        raise OSError("the disk is full")


@pytest.mark.row("X7", "X3")
async def test_after_failures_in_a_row_it_pauses_and_says_so_once():
    triggers = TriggersConfig(breaker_failures=3, min_gain_ratio=0.005)
    agent, _ = working(
        config(triggers=triggers, trigger_ratio=0.2),
        offloader=StoreOffloader(FailingStore(), HostCodec()),
        window=60_000,
    )

    events = await events_of(agent.reply_stream(user("Look up sixty topics.")))

    names = told(events)
    assert names.count("compression.paused") == 1
    [paused] = [event for event in events if getattr(event, "name", "") == "ctxkit.compression.paused"]
    assert paused.value["failures"] == 3
    assert "the disk is full" in paused.value["problem"]
    # 3 tries close together, and from then on far apart, or each step where the request is about to grow too large.
    assert names.index("compression.paused") > [n for n, name in enumerate(names) if name == "compression.failed"][2]


# Pressure (row D2)


@pytest.mark.row("D2")
async def test_pressure_is_measured_on_the_request_that_the_agent_would_send():
    triggers = TriggersConfig(mode="cost", pressure_ratio=0.08)
    agent, model = working(config(triggers=triggers), steps=40)
    looks = Looks(await engine_of(agent))

    await agent.reply(user("Look up forty topics."))

    assert applied(agent)[0].limit_tokens == ceil(0.08 * settings_of(config()).available_tokens(WINDOW))
    assert looks.seen[-1].tokens == pytest.approx(model.chats[-1].input_tokens, rel=0.02)


# What the host tells the agent


def hints(agent) -> str:
    return "\n".join(
        block.hint if isinstance(block.hint, str) else "".join(piece.text for piece in block.hint)
        for message in agent.state.context
        for block in message.content
        if isinstance(block, HintBlock)
    )


@pytest.mark.row("X7")
async def test_the_hosts_hint_names_the_tokens_at_which_it_will_compress_and_the_config_stays_the_users():
    settings = config()
    model = ScriptedModel([*fetches(22, size=600), "done", "bye"], context_size=WINDOW, enforce="cl100k")
    agent = make_agent(model, config=settings, offloader=memory_offloader())
    engine = await engine_of(agent)
    await agent.reply(user("Look up some topics."))
    assert "will be compressed" not in hints(agent)

    trigger = await engine.trigger_tokens(settings_of(settings))
    events = [event async for event in agent.reply_stream(user("And now?"))]

    assert events
    told_tokens = int(hints(agent).partition("When reaching ")[2].partition(" tokens")[0])
    assert told_tokens == pytest.approx(trigger, rel=0.02)
    assert told_tokens < 0.5 * WINDOW
    assert agent.context_config is settings
    assert not settings_of(agent.context_config).is_ratio_explicit


@pytest.mark.row("X7")
async def test_a_reply_that_is_left_amid_the_hosts_hint_has_the_users_config_at_once():
    settings = config()
    model = ScriptedModel([*fetches(22, size=600), "done", "bye"], context_size=WINDOW, enforce="cl100k")
    agent = make_agent(model, config=settings, offloader=memory_offloader())
    await agent.reply(user("Look up some topics."))
    trigger = await (await engine_of(agent)).trigger_tokens(settings_of(settings))
    stream = agent.reply_stream(user("And now?"))

    async for event in stream:
        assert agent.context_config is settings
        if isinstance(event, HintBlockEvent):
            break

    told_tokens = int(hints(agent).partition("When reaching ")[2].partition(" tokens")[0])
    assert told_tokens == pytest.approx(trigger, rel=0.02)
    assert agent.context_config is settings  # the stream is still open
    await stream.aclose()
    await agent.compress_context()
    assert (await engine_of(agent)).last_receipt.limit_tokens == int(0.8 * WINDOW)


@pytest.mark.row("X7")
async def test_a_config_that_somebody_sets_meanwhile_stays():
    agent = make_agent(ScriptedModel(context_size=WINDOW), config=config(), offloader=memory_offloader())
    other = ContextConfig(trigger_ratio=0.6)

    async for _ in agent.reply_stream(user("Hello?")):
        agent.context_config = other

    assert agent.context_config is other
