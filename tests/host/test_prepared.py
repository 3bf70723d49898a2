"""The summary is made beside the agent's work: no reply waits for it, and nothing that came meanwhile is lost."""

import asyncio
import gc
import logging

import pytest
from agentscope.message import TextBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, ContextConfig, LadderConfig, SummaryConfig
from ctxkit.testing import ScriptedModel
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
    summary_text,
    text_of,
    told,
    user,
)
from tests.host.summaries import GOOD, QUICK

pytestmark = pytest.mark.asyncio

WINDOW = 32768
TRIGGER = 0.7
SIZE = 800
"""Words of a report: about 900 tokens, so that between trigger and limit there is room for some ten steps."""


class Gate:
    """Answers summary requests when the test says so."""

    def __init__(self, answer=GOOD):
        self.answer = answer
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def __call__(self, messages):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.asked.set()
        try:
            await self.go_on.wait()
        finally:
            self.inside -= 1
        return self.answer


def a_config(**settings) -> ContextConfig:
    sections = {"summary": SummaryConfig(**QUICK), "ladder": LadderConfig(rungs=("summarize",))}
    return ContextConfig(**{"trigger_ratio": TRIGGER, "reserve_ratio": 0.1, **sections, **settings})


def an_agent(gate, script, *, config=None, turns=14, **settings):
    """Return an agent whose context is at about half of its trigger."""
    model = ScriptedModel(script, context_size=WINDOW, summaries=gate, enforce="cl100k")
    settings.setdefault("offloader", memory_offloader())
    agent = make_agent(model, config=config or a_config(), **settings)
    agent.state.context.extend(history(turns, size=SIZE))
    return agent


def then(action, step):
    """Return a line of a script that does something first."""

    def said(messages):
        action()
        return step

    return said


def unhurried(steps):
    """Return a script whose steps take as long as what runs in the background, as those of real models may."""

    def slow(step):
        async def said(messages):
            while running := preparations():
                await asyncio.wait(running)
            return step

        return said

    return [slow(step) for step in steps]


async def settled():
    """Wait until nothing but the test runs."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


def preparations():
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("ctxkit-prepare-")]


async def prepare(agent):
    """Let an agent come to where its summary is prepared, and let that end; it is not used yet."""
    await agent.reply(user("Go on."))
    await settled()
    assert applied(agent) == []
    assert len(agent.model.summary_requests) == 1


@pytest.mark.row("X6")
async def test_the_agent_goes_on_while_its_summary_is_made_and_what_came_meanwhile_stays():
    gate = Gate()
    first, last = fetches(10, size=SIZE), fetches(6, size=SIZE, prefix="late")
    agent = an_agent(gate, [*first, then(gate.go_on.set, last[0]), *unhurried(last[1:])], turns=18)

    events = await events_of(agent.reply_stream(user("Look up the topics.")))

    [receipt] = applied(agent)
    assert (receipt.is_prepared, receipt.summary) == (True, "warm")
    assert "by trigger_ratio, which was set" in receipt.why
    assert receipt.why.endswith("its summary was there already")
    assert receipt.tokens_before > receipt.limit_tokens
    assert len(agent.model.summary_requests) == 1
    kinds = [request.kind for request in agent.model.requests]
    assert kinds.index("summary") < len(kinds) - 8, "the reply waited for its summary"
    assert "Question 0:" not in text_of(agent.state.context)
    came = [*(f"topic-{i}" for i in range(10)), *(f"late-{i}" for i in range(6))]
    assert [topic for topic in came if number_of(topic) not in text_of(agent.state.context)] == []
    assert orphans(agent.state.context) == []
    assert GOOD["current_state"] in summary_text(agent)
    assert told(events).count("summary.prepared") == 1
    assert gate.most == 1


@pytest.mark.row("X6")
async def test_a_long_run_waits_for_no_summary_and_pays_for_none_twice():
    waits = []

    class Watched(CompressionMiddleware):
        async def on_reasoning(self, agent, input_kwargs, next_handler):
            before = len(agent.model.summary_requests)
            begun = False

            async def counted():
                nonlocal begun
                begun = True
                async for item in next_handler():
                    yield item

            async for event in super().on_reasoning(agent, input_kwargs, counted):
                if not begun:
                    waits.append(len(agent.model.summary_requests) - before)
                yield event

    agent = an_agent(GOOD, unhurried(fetches(90, size=SIZE)), middlewares=[Watched()])

    await agent.reply(user("Look up the topics."))
    await settled()

    assert len(applied(agent)) >= 4
    assert all(receipt.is_prepared for receipt in applied(agent))
    assert 0 <= len(agent.model.summary_requests) - len(applied(agent)) <= 1
    assert sum(waits) == 0
    assert [number for number, one in enumerate(receipts(agent)) if one.outcome != "applied"] == []


async def test_no_summary_is_prepared_where_a_cheaper_rung_will_do_and_nothing_waits_for_one():
    config = a_config(ladder=LadderConfig(rungs=("clear_results", "summarize")))
    agent = an_agent(GOOD, unhurried(fetches(90, size=SIZE)), config=config)

    await agent.reply(user("Look up the topics."))
    await settled()

    assert "none" in {receipt.summary for receipt in applied(agent)}
    assert all(receipt.is_prepared == (receipt.summary == "warm") for receipt in applied(agent))
    assert all(receipt.tokens_before < receipt.limit_tokens + 1500 for receipt in applied(agent))
    assert len(agent.model.summary_requests) <= sum(receipt.is_prepared for receipt in applied(agent)) + 1


@pytest.mark.row("X6")
async def test_a_compression_by_hand_uses_what_was_prepared():
    agent = an_agent(GOOD, fetches(1, size=SIZE), turns=16)
    await prepare(agent)

    await agent.compress_context()
    assert receipts(agent)[-1].outcome == "unneeded"
    middleware = agent._compress_context_middlewares[0]
    receipt = await middleware.compact(agent)

    assert (receipt.outcome, receipt.is_prepared) == ("applied", True)
    assert len(agent.model.summary_requests) == 1


async def test_a_compression_by_hand_that_asks_for_something_else_makes_its_own_summary():
    agent = an_agent(GOOD, fetches(1, size=SIZE), turns=16)
    await prepare(agent)
    paid = agent.state.context[-1].usage.input_tokens

    receipt = await agent._compress_context_middlewares[0].compact(agent, focus="the numbers")

    assert (receipt.outcome, receipt.is_prepared) == ("applied", False)
    first, second = agent.model.summary_requests
    assert "the numbers" in text_of(second.messages[-1:])
    # What was prepared is thrown away: that is told at the next step, and charged now.
    assert agent.state.context[-1].usage.input_tokens == paid + first.input_tokens + second.input_tokens
    assert "summary.rejected" in told(await events_of(agent.reply_stream(user("And now?"))))


@pytest.mark.row("X6")
async def test_a_compression_by_hand_waits_for_the_summary_that_is_being_made():
    gate = Gate()
    agent = an_agent(gate, fetches(1, size=SIZE), turns=16)
    await agent.reply(user("Go on."))
    await gate.asked.wait()

    by_hand = asyncio.create_task(agent._compress_context_middlewares[0].compact(agent))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not by_hand.done()
    gate.go_on.set()
    receipt = await by_hand

    assert (receipt.is_prepared, gate.most, len(agent.model.summary_requests)) == (True, 1, 1)


# It is used only where all of it still stands


def change_a_block(agent):
    result = agent.state.context[1].content[1]
    agent.state.context[1].content[1] = ToolResultBlock(
        id=result.id, name=result.name, output=[TextBlock(text="CHANGED-BY-HAND")]
    )


def remove_a_message(agent):
    agent.state.context = [agent.state.context[0], *agent.state.context[2:]]


def write_a_summary(agent):
    agent.state.summary = "SOMEBODY-ELSES-SUMMARY"


@pytest.mark.row("X6")
@pytest.mark.parametrize("is_ready", [False, True], ids=["while it is made", "when it is ready"])
@pytest.mark.parametrize("change", [change_a_block, remove_a_message, write_a_summary])
async def test_a_summary_of_what_has_changed_since_is_told_charged_and_never_used(change, is_ready):
    gate = Gate()
    agent = an_agent(gate, [*fetches(1, size=SIZE), "done", *unhurried(fetches(12, size=SIZE))], turns=16)
    await agent.reply(user("Go on."))
    await gate.asked.wait()
    if is_ready:
        gate.go_on.set()
        await settled()
    change(agent)
    gate.go_on.set()
    await settled()
    gate.answer = {**GOOD, "current_state": "ANOTHER-SUMMARY"}

    events = await events_of(agent.reply_stream(user("Go on.")))
    await settled()

    assert told(events).count("summary.rejected") == 1
    assert "ANOTHER-SUMMARY" in summary_text(agent)
    assert GOOD["current_state"] not in summary_text(agent)
    assert len(agent.model.summary_requests) == 1 + len(applied(agent))
    if change is write_a_summary:
        assert "SOMEBODY-ELSES-SUMMARY" in summary_text(agent)


# It outlives the process


def a_heir(agent, script, **settings):
    """Return an agent of another process that goes on with an agent's saved state and store."""
    model = ScriptedModel(script, context_size=WINDOW, summaries={**GOOD, "current_state": "ANEW"}, enforce="cl100k")
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    return make_agent(model, config=a_config(), offloader=agent.offloader, state=state, **settings)


@pytest.mark.row("X6")
async def test_a_summary_that_was_prepared_before_a_restart_is_used_after_it():
    agent = an_agent(GOOD, fetches(1, size=SIZE), turns=16)
    await prepare(agent)
    heir = a_heir(agent, fetches(12, size=SIZE))

    await heir.reply(user("Go on."))
    await settled()

    [receipt] = applied(heir)
    assert receipt.is_prepared
    assert GOOD["current_state"] in summary_text(heir)
    assert heir.model.summary_requests == []


@pytest.mark.row("X6")
async def test_a_summary_of_blocks_that_are_others_after_a_restart_is_not_used():
    agent = an_agent(GOOD, fetches(1, size=SIZE), turns=16)
    await prepare(agent)
    change_a_block(agent)
    heir = a_heir(agent, fetches(12, size=SIZE))

    await heir.reply(user("Go on."))
    await settled()

    assert "ANEW" in summary_text(heir)
    assert GOOD["current_state"] not in summary_text(heir)


async def test_the_summary_of_an_agent_that_is_gone_is_there_for_whoever_goes_on_with_its_session():
    gate = Gate()
    agent = an_agent(gate, fetches(1, size=SIZE), turns=16)
    await agent.reply(user("Go on."))
    await gate.asked.wait()
    heir = a_heir(agent, fetches(12, size=SIZE))
    del agent
    gc.collect()

    gate.go_on.set()
    await settled()
    await heir.reply(user("Go on."))

    assert [receipt.is_prepared for receipt in applied(heir)] == [True]
    assert heir.model.summary_requests == []


# When it does not come in time


@pytest.mark.row("X6", "X4")
async def test_where_the_limit_comes_first_a_summary_without_a_model_acts_at_once_and_the_late_one_is_dropped():
    gate = Gate()
    agent = an_agent(gate, [*fetches(24, size=SIZE), "done", "and on"], turns=14)

    await agent.reply(user("Look up the topics."))  # it would hang here if it waited

    assert gate.asked.is_set()
    [receipt] = applied(agent)
    assert (receipt.summary, receipt.is_prepared) == ("extractive", False)
    assert receipt.tokens_before > WINDOW - 1024 - 2 * 1500, "it acted before it had to"
    assert not any(request.refused for request in agent.model.requests)
    before = summary_text(agent)
    gate.go_on.set()
    await settled()
    events = await events_of(agent.reply_stream(user("And now?")))

    assert told(events).count("summary.rejected") == 1
    assert summary_text(agent) == before
    assert gate.most == 1


async def test_where_a_summary_without_a_model_is_forbidden_the_reply_waits_for_the_one_that_is_being_made():
    gate = Gate()
    config = a_config(compression_fallback_to_truncation=False)
    agent = an_agent(gate, fetches(24, size=SIZE), config=config)
    running = asyncio.create_task(agent.reply(user("Look up the topics.")))
    await gate.asked.wait()
    for _ in range(2000):
        await asyncio.sleep(0)
    assert not running.done()

    gate.go_on.set()
    await running

    assert applied(agent)[0].is_prepared
    assert gate.most == 1


@pytest.mark.row("X6")
async def test_a_prepared_summary_that_stands_for_less_than_came_since_is_used_and_nothing_is_waited_for_or_cut():
    gate = Gate()
    big = fetches(2, size=6000, prefix="big")
    script = [
        *fetches(1, size=SIZE),
        big[0],
        then(gate.go_on.set, big[1]),
        *unhurried([*fetches(3, size=SIZE), "done"]),
    ]
    agent = an_agent(gate, script, turns=6, config=a_config(trigger_ratio=0.3))

    await agent.reply(user("Look up the topics."))
    await settled()

    first = applied(agent)[0]
    assert (first.is_prepared, first.blocks_shortened) == (True, 0)
    assert first.tokens_after > first.limit_tokens, "the case that is meant did not come up"
    assert len(agent.model.summary_requests) == len(applied(agent))
    assert [one for one in applied(agent) if not one.is_prepared] == []


async def test_a_context_that_passes_its_trigger_in_one_step_is_compressed_then():
    agent = an_agent(GOOD, ["done"], turns=27)

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert (receipt.is_prepared, receipt.summary) == (False, "warm")


async def test_nothing_is_prepared_where_the_settings_forbid_it():
    config = a_config(summary=SummaryConfig(prepare=False, **QUICK))
    agent = an_agent(GOOD, fetches(40, size=SIZE), config=config)

    await agent.reply(user("Look up the topics."))

    assert len(applied(agent)) >= 2
    assert not any(receipt.is_prepared for receipt in applied(agent))


async def test_a_model_that_fails_in_the_background_is_not_asked_at_each_step_and_the_facts_survive(caplog):
    agent = an_agent(RuntimeError("server error"), fetches(40, size=SIZE))

    with caplog.at_level(logging.WARNING, logger="ctxkit"):
        reply = await agent.reply(user("Look up the topics."))
        await settled()

    assert reply.finished_reason == "completed"
    assert {receipt.summary for receipt in applied(agent)} == {"extractive"}
    assert "ctxkit prepared no summary for agent 'scribe'" in caplog.text
    assert len(agent.model.summary_requests) < len(agent.model.chats)


# Who owns it, and how it ends


@pytest.mark.row("X6")
async def test_closing_the_middleware_ends_what_runs_in_the_background_and_leaves_what_is_stored():
    gate = Gate()
    async with CompressionMiddleware() as middleware:
        agent = an_agent(gate, fetches(1, size=SIZE), turns=16, middlewares=[middleware])
        await agent.reply(user("Go on."))
        await gate.asked.wait()
        [task] = preparations()
        assert task.get_name() == "ctxkit-prepare-scribe"

    assert asyncio.all_tasks() == {asyncio.current_task()}
    kinds = [entry.kind async for entry in agent.offloader.store.list(agent.state.session_id)]
    assert set(kinds) == {"message"}
    assert "Question 0:" in text_of(agent.state.context)


@pytest.mark.row("X6")
async def test_a_reply_that_is_cancelled_leaves_the_summary_in_the_background_alone():
    gate, stuck = Gate(), asyncio.Event()

    async def hang(messages):
        stuck.set()
        await asyncio.Event().wait()

    agent = an_agent(gate, [*fetches(2, size=SIZE), hang, *fetches(12, size=SIZE)], turns=16)
    running = asyncio.create_task(agent.reply(user("Go on.")))
    await stuck.wait()
    await gate.asked.wait()
    running.cancel()
    await asyncio.wait([running])

    assert len(preparations()) == 1
    gate.go_on.set()
    await settled()
    await agent.reply(user("Go on."))

    assert [receipt.is_prepared for receipt in applied(agent)][:1] == [True]


@pytest.mark.row("X6")
async def test_the_summaries_of_two_agents_are_made_at_once_and_never_taken_for_each_other():
    gates = [Gate({**GOOD, "current_state": f"SUMMARY-{i}"}) for i in range(2)]
    middleware = CompressionMiddleware()
    agents = [an_agent(gate, fetches(14, size=SIZE), turns=16, middlewares=[middleware]) for gate in gates]
    running = [asyncio.create_task(agent.reply(user("Go on."))) for agent in agents]
    for gate in gates:
        await gate.asked.wait()
    assert [gate.inside for gate in gates] == [1, 1]
    for gate in gates:
        gate.go_on.set()
    await asyncio.gather(*running)
    await settled()
    for agent in agents:  # one may have come to its end before the other asked
        await agent.reply(user("And now?"))

    for i, agent in enumerate(agents):
        assert f"SUMMARY-{i}" in summary_text(agent)
        assert f"SUMMARY-{1 - i}" not in summary_text(agent)
        assert middleware.receipts(agent)[0].is_prepared


async def test_of_two_agents_on_one_session_never_two_ask_for_a_summary_at_once():
    gate = Gate()
    agents = [an_agent(gate, fetches(1, size=SIZE), turns=16) for _ in range(2)]
    agents[1].state.session_id = agents[0].state.session_id
    for agent in agents:
        await agent.reply(user("Go on."))
    await gate.asked.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    gate.go_on.set()
    await settled()

    assert gate.most == 1


async def test_a_request_for_a_summary_never_grows_with_the_context_behind_it():
    gate = Gate()
    tries = []

    async def fails_first(messages):
        tries.append(len(messages))
        if len(tries) == 1:
            await gate(messages)
            raise RuntimeError("server error")
        return GOOD

    steps = fetches(8, size=SIZE)
    steps[5] = then(gate.go_on.set, steps[5])
    agent = an_agent(fails_first, steps, turns=16)

    await agent.reply(user("Look up the topics."))
    await settled()

    first, second = agent.model.summary_requests[:2]
    assert orphans(first.messages) == orphans(second.messages) == []
    assert text_of(first.messages) == text_of(second.messages)


async def cancelled_in_turn(number):
    """Let an agent prepare a summary that is cancelled in a turn of the event loop; return it, and whether it was."""
    agent = an_agent(GOOD, [*fetches(1, size=SIZE), "done", *unhurried(fetches(14, size=SIZE))], turns=16)
    await agent.reply(user("Go on."))
    task = next(iter(preparations()), None)
    for _ in range(number):
        await asyncio.sleep(0)
    was_running = task is not None and not task.done() and task.cancel()
    await settled()
    return agent, was_running


@pytest.mark.slow
async def test_a_summary_in_the_background_that_is_cancelled_in_any_turn_costs_no_content_and_no_reply():
    number, is_running = 0, True
    while is_running:
        agent, is_running = await cancelled_in_turn(number)
        before = [f"its number is {number_of(f'old-{i}')}" for i in range(16)]
        assert [text for text in before if text not in text_of(agent.state.context)] == []

        await agent.reply(user("Go on."))
        await settled()

        store = agent.offloader.store
        stored = [await store.get(e.reference, e.offset, e.size) async for e in store.list(agent.state.session_id)]
        everything = text_of(agent.state.context) + "".join(part.decode() for part in stored)
        assert [text for text in before if text not in everything] == []
        assert len(applied(agent)) == 1
        assert len(agent.model.summary_requests) <= 2
        number += 1
    assert number > 5
