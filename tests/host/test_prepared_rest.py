"""What a prepared summary leaves over: it is more than one that is made at the trigger would, and is cleared."""

import asyncio
import hashlib

import pytest

from ctxkit import ContextConfig, LadderConfig, SummaryConfig
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, make_agent, memory_offloader, orphans, summary_text, text_of, user
from tests.host.summaries import GOOD, QUICK

pytestmark = pytest.mark.asyncio

WINDOW = 32768
STEPS = 30


def order_of(day: int, number: int) -> str:
    """Return an order's number, which stands in one result and nowhere else."""
    return f"OR-{hashlib.sha256(f'{day}.{number}'.encode()).hexdigest()[:10]}"


def orders(day: int) -> str:
    """List the orders of a day.

    Args:
        day (int): The day.
    """
    return "\n".join(f"order {order_of(day, number)} was packed, paid for and sent by train" for number in range(40))


def preparations():
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("ctxkit-prepare-")]


def script(steps):
    """Return calls of which none is made before the summary that is being prepared is there."""

    def slow(step):
        async def said(_):
            while running := preparations():
                await asyncio.wait(running)
            return step

        return said

    return [*(slow(call("orders", day=day)) for day in range(steps)), "done"]


async def replied(steps=STEPS, **ladder):
    """Return an agent that has come over its trigger once, with a summary that had been prepared."""
    model = ScriptedModel(script(steps), context_size=WINDOW, summaries=GOOD, enforce="cl100k")
    config = ContextConfig(
        trigger_ratio=0.7, reserve_ratio=0.1, summary=SummaryConfig(**QUICK), ladder=LadderConfig(**ladder)
    )
    agent = make_agent(model, config=config, tools=(orders,), offloader=memory_offloader())
    await agent.reply(user("List the orders of each day."))
    [receipt] = applied(agent)
    assert receipt.is_prepared
    return agent, receipt


def whole(agent):
    """Return the days whose results stand whole in the context."""
    said = text_of(agent.state.context)
    return [day for day in range(STEPS) if all(order_of(day, number) in said for number in range(40))]


@pytest.mark.row("X6")
async def test_what_a_prepared_summary_leaves_over_is_cleared_and_the_newest_results_stay_whole():
    agent, receipt = await replied()
    kept, _ = await replied(rungs=("summarize",))

    assert receipt.rules == ("summarize", "clear_results")
    assert whole(agent) == whole(kept)[-len(whole(agent)) :]
    assert len(whole(kept)) > len(whole(agent)) >= 2
    assert "[Cleared to save room: the result of orders(" in text_of(agent.state.context)
    assert "Cleared" not in text_of(kept.state.context)
    assert orphans(agent.state.context) == []


@pytest.mark.row("X9")
async def test_what_a_result_named_that_is_cleared_beside_a_new_summary_stands_in_its_line_or_in_the_ledger():
    agent, _ = await replied()
    said, layer = text_of(agent.state.context), summary_text(agent)
    cleared = [day for day in range(STEPS) if f'{{"day": {day}}}' in said and day not in whole(agent)]

    newest = [order_of(cleared[-1], number) for number in range(40)]
    assert [order for order in newest if order not in said], "the case that is meant did not come up"
    assert [order for order in newest if order not in said + layer] == []
