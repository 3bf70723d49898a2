"""What is pinned stays word for word, through real agents: compressions, restarts, other ways of making room, undoing."""

from __future__ import annotations

import pytest
from agentscope.message import AssistantMsg
from agentscope.state import AgentState

from ctxkit import (
    ConfigError,
    ContextConfig,
    FileStore,
    HostCodec,
    LadderConfig,
    OverflowConfig,
    Steering,
    StoreOffloader,
    SummaryConfig,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    exchange,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    summary_text,
    text_of,
    user,
)

pytestmark = pytest.mark.asyncio
RULE = "Never touch the file payroll-7731.csv; answer in Flemish."


def pinned_agent(*, turns=10, offloader=None, **config):
    """Return an agent with a past whose first message is a rule, and its handle."""
    config.setdefault("ladder", LadderConfig(rungs=("summarize",)))
    agent = make_agent(
        ScriptedModel(context_size=16_000), offloader=offloader or memory_offloader(), config=ContextConfig(**config)
    )
    agent.state.context.extend([user(RULE), *history(turns)])
    return agent, Steering.of(agent)


def stands(agent):
    """Return whether the rule stands word for word in the context or in the summary layer."""
    return RULE in text_of(agent.state.context) or RULE in summary_text(agent)


@pytest.mark.row("X10")
async def test_a_pinned_message_stays_in_its_place_through_twenty_compressions():
    agent, steering = pinned_agent()
    message = agent.state.context[0]
    pin = await steering.pin(message)
    assert (pin.text, pin.where) == (RULE, "context")
    for number in range(20):
        receipt = await steering.compact()
        assert receipt.outcome == "applied", receipt
        assert agent.state.context[0] is message
        assert orphans(agent.state.context) == []
        agent.state.context.extend(history(8, prefix=f"round-{number}"))
    assert [pin.text for pin in steering.pins()] == [RULE]


@pytest.mark.row("X10")
async def test_a_pinned_call_stays_with_its_result_also_where_they_are_messages_of_their_own():
    agent, steering = pinned_agent()
    called, answered = exchange(99)
    apart = [AssistantMsg(name="scribe", content=[called]), AssistantMsg(name="scribe", content=[answered])]
    agent.state.context[3:3] = apart
    await steering.pin(apart[0].id)
    receipt = await steering.compact()
    assert receipt.outcome == "applied"
    assert [message for message in agent.state.context if message in apart] == apart
    assert orphans(agent.state.context) == []


@pytest.mark.row("X10")
async def test_pins_survive_a_restart_and_hold_for_the_agent_that_is_built_on_the_saved_state(tmp_path):
    agent, steering = pinned_agent(offloader=StoreOffloader(FileStore(tmp_path), HostCodec()))
    await steering.pin(agent.state.context[0])
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    again = make_agent(
        ScriptedModel(context_size=16_000),
        offloader=StoreOffloader(FileStore(tmp_path), HostCodec()),
        config=agent.context_config,
        state=state,
    )
    handle = Steering.of(again)
    assert [pin.text for pin in handle.pins()] == [RULE]
    assert (await handle.compact()).outcome == "applied"
    assert RULE in text_of(again.state.context)


@pytest.mark.row("X10")
async def test_a_pinned_text_stands_at_the_end_of_the_context_and_stays():
    agent, steering = pinned_agent()
    before = list(agent.state.context)
    pin = await steering.pin("The budget is 40,000 EUR.")
    assert agent.state.context[:-1] == before
    assert (agent.state.context[-1].role, agent.state.context[-1].id) == ("user", pin.id)
    assert pin.where == "context"
    agent.state.context.extend(history(10, prefix="later"))
    assert (await steering.compact()).outcome == "applied"
    assert "The budget is 40,000 EUR." in text_of(agent.state.context)


@pytest.mark.row("X10")
async def test_a_text_that_is_pinned_by_a_tool_waits_for_the_next_turn_and_is_never_lost():
    noted = []

    async def note(text: str) -> str:
        """Note a text.

        Args:
            text (str): The text.
        """
        noted.append(await Steering.of(agent).pin(text))
        return "noted"

    model = ScriptedModel([call("note", text=RULE), "noted", "yes"], context_size=16_000)
    agent = make_agent(model, tools=[note], offloader=memory_offloader())
    await agent.reply(user("Note the rule."))
    assert [pin.where for pin in noted] == ["waiting"]
    assert orphans(agent.state.context) == []
    await agent.reply(user("Do you know it?"))
    assert RULE in [
        block.text for message in model.chats[-1].messages for block in message.content if block.type == "text"
    ]
    assert [pin.where for pin in Steering.of(agent).pins()] == ["context"]


@pytest.mark.row("X10")
async def test_a_pin_for_which_a_smaller_window_has_no_room_stands_first_in_the_summary_layer():
    agent, steering = pinned_agent(turns=12)
    long = user("Keep this: " + " ".join(f"item-{n}" for n in range(90)))
    agent.state.context.insert(0, long)
    await steering.pin(long)
    agent.model.context_size = 4_000
    assert (await steering.compact()).outcome == "applied"
    assert long.id not in {message.id for message in agent.state.context}
    assert agent.state.summary[0].text.startswith("# Pinned by the user")
    assert long.content[0].text in agent.state.summary[0].text
    assert [pin.where for pin in steering.pins()] == ["summary"]
    agent.state.context.extend(history(6, prefix="later"))
    assert (await steering.compact()).outcome == "applied"
    assert long.content[0].text in summary_text(agent)
    steering.unpin(long.id)
    agent.state.context.extend(history(6, prefix="last"))
    assert (await steering.compact()).outcome == "applied"
    assert long.content[0].text not in summary_text(agent).partition("# Parts")[0]


@pytest.mark.row("X10")
@pytest.mark.parametrize("how", ["extractive", "truncate", "clear"])
async def test_a_pin_survives_every_other_way_of_making_room(how):
    config = {}
    if how == "truncate":
        config["ladder"] = LadderConfig(strategy="truncate", rungs=("summarize",))
    if how == "clear":
        config |= {"overflow": OverflowConfig(on_unfit="clear"), "compression_fallback_to_truncation": False}
    agent, steering = pinned_agent(**config)
    if how == "extractive":
        agent.model._summaries = "no summary at all"
    await steering.pin(agent.state.context[0])
    if how == "clear":
        agent.model.context_size = 1_500
    receipt = await steering.compact()
    assert receipt.outcome == "applied"
    assert stands(agent)


@pytest.mark.row("X10")
async def test_a_pin_survives_that_a_compression_is_taken_back():
    agent, steering = pinned_agent()
    await steering.pin(agent.state.context[0])
    await steering.compact()
    assert (await steering.undo()).outcome == "undone"
    assert [pin.where for pin in steering.pins()] == ["context"]
    assert (await steering.explain(agent.state.context[0].id)).is_pinned


@pytest.mark.row("X10")
async def test_a_pin_over_its_budget_is_refused_with_the_sizes():
    agent, steering = pinned_agent()
    with pytest.raises(ConfigError, match=r"has \d+ tokens.*at most \d+ tokens.*pins_share_ratio"):
        await steering.pin(" ".join(f"item-{n}" for n in range(3000)))
    assert steering.pins() == ()
    assert len(agent.state.context) == 21


async def test_an_unpinned_message_leaves_like_any_other():
    agent, steering = pinned_agent()
    message = agent.state.context[0]
    await steering.pin(message)
    assert steering.unpin(message.id)
    assert not steering.unpin(message.id)
    await steering.compact()
    assert message not in agent.state.context


@pytest.mark.row("X10")
async def test_a_pin_stays_while_the_agent_works_on():
    model = ScriptedModel([*fetches(24, size=500), "done"], context_size=12_000)
    agent = make_agent(
        model,
        offloader=memory_offloader(),
        config=ContextConfig(
            trigger_ratio=0.5, ladder=LadderConfig(rungs=("summarize",)), summary=SummaryConfig(prepare=False)
        ),
    )
    rule = user(RULE)
    agent.state.context.extend([rule, *history(2)])
    await Steering.of(agent).pin(rule)
    await agent.reply(user("Look all of it up."))
    assert len(model.summary_requests) > 0
    for request in model.chats:
        assert RULE in text_of(request.messages)


async def test_a_state_without_an_agent_can_be_pinned():
    agent, _ = pinned_agent()
    handle = Steering(agent.state)
    pin = await handle.pin(agent.state.context[0])
    assert handle.pins() == (pin,)


@pytest.mark.row("X10")
async def test_a_pin_is_in_the_smaller_view_of_a_request_that_does_not_fit():
    model = ScriptedModel(["done"], context_size=12_000, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader(), config=ContextConfig(trigger_ratio=0.9))
    rule = user(RULE)
    agent.state.context.extend([rule, *history(20)])
    await Steering.of(agent).pin(rule)
    model.context_size = 4_000
    await agent.reply(user("Go on."))
    assert RULE in text_of(model.chats[-1].messages)
