"""Each cheap rung through a real agent: what it takes, that it asks no model, and that all of it can be read back."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass

import pytest
from agentscope.agent import Agent
from agentscope.message import AssistantMsg, Msg, TextBlock, ThinkingBlock, ToolResultBlock

from ctxkit import (
    ContextConfig,
    CostConfig,
    Edit,
    LadderConfig,
    Price,
    Receipt,
    Situation,
    StoreOffloader,
    SummaryConfig,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    summary_text,
    text_of,
    user,
    words,
)
from tests.host.summaries import GOOD, QUICK
from tests.host.test_prepared import SIZE, an_agent, settled, unhurried

pytestmark = [pytest.mark.asyncio, pytest.mark.row("X3")]
REFERENCE = re.compile(r'read_context\(reference="([^"]+)"\)')


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one reply."""

    agent: Agent
    model: ScriptedModel
    offloader: StoreOffloader
    receipt: Receipt

    @property
    def text(self) -> str:
        return text_of(self.agent.state.context)

    async def originals(self) -> str:
        """Return what stands at the places that the context names, and where messages went."""
        places = [*REFERENCE.findall(self.text), *filter(None, [self.receipt.reference])]
        return "\n".join([(await self.offloader.store.get(place)).decode() for place in dict.fromkeys(places)])


async def climbed(rung: str, context: list[Msg], *, above: tuple[str, ...] = ("summarize",)) -> Outcome:
    """Let an agent with one rung before those above it answer; its context is above the trigger."""
    model = ScriptedModel(["Done."], context_size=8_000)
    offloader = memory_offloader()
    ladder = LadderConfig(rungs=(rung, *above), keep_results=2)
    agent = make_agent(model, config=ContextConfig(trigger_ratio=0.5, ladder=ladder), offloader=offloader)
    agent.state.context.extend(context)
    await agent.reply(user("And now?"))
    (receipt,) = applied(agent)
    outcome = Outcome(agent=agent, model=model, offloader=offloader, receipt=receipt)
    assert outcome.receipt.rules == (rung,)
    assert outcome.receipt.tokens_after < outcome.receipt.tokens_before
    assert orphans(agent.state.context) == []
    return outcome


def assert_no_summary(outcome: Outcome) -> None:
    assert outcome.receipt.summary == "none"
    assert len(outcome.model.requests) == 1  # the reply's own
    assert summary_text(outcome.agent) == ""


def turn(number: int, result: str, *, tool: str = "fetch", thinking: str = "", **arguments: object) -> list[Msg]:
    """Return a finished turn with one call."""
    made = call(tool, **arguments)
    made.state = "finished"
    answer = ToolResultBlock(id=made.id, name=tool, output=[TextBlock(text=result)])
    thought = [ThinkingBlock(thinking=thinking)] if thinking else []
    said = AssistantMsg(name="scribe", content=[*thought, made, answer, TextBlock(text=f"Answer {number}.")])
    return [user(f"Question {number}?"), said]


async def test_old_results_are_cleared_to_a_line_that_names_their_place():
    outcome = await climbed("clear_results", history(12, size=350))
    assert_no_summary(outcome)
    lines = [line for line in outcome.text.splitlines() if line.startswith("[Cleared")]
    assert len(lines) == 10
    assert "fetch(old-0 350) (ok, " in lines[0]
    numbers = [number_of(f"old-{n}") for n in range(10)]
    originals = await outcome.originals()
    assert all(number in originals for number in numbers)


async def test_a_result_that_came_again_is_cleared_and_the_newest_of_equals_stays():
    same = words(800, seed="same")
    outcome = await climbed("deduplicate", [m for n in range(5) for m in turn(n, same, topic="north", again=n)])
    assert_no_summary(outcome)
    assert outcome.text.count(same) == 1
    assert outcome.text.count("which came again, word for word, from a later fetch(north 4)") == 4
    assert same in await outcome.originals()


async def test_results_are_shrunk_where_a_terminal_would_show_no_difference():
    bars = "\r".join(f"\x1b[32mDownloading {share}%\x1b[0m |{'#' * share}|" for share in range(0, 101, 2))
    context = [
        m for n in range(5) for m in turn(n, f"{bars}\n\n\n\n{number_of(str(n))}", tool="Bash", command=f"get {n}")
    ]
    outcome = await climbed("shrink", context)
    assert_no_summary(outcome)
    assert "\x1b" not in outcome.text
    assert outcome.text.count("Downloading") == 5
    assert all(number_of(str(n)) in outcome.text for n in range(5))


async def test_thinking_of_finished_turns_leaves():
    context = [m for n in range(5) for m in turn(n, "short", thinking=words(800, seed=str(n)), topic=str(n))]
    outcome = await climbed("clear_thinking", context)
    assert_no_summary(outcome)
    assert not [b for m in outcome.agent.state.context for b in m.content if b.type == "thinking"]
    assert words(800, seed="0") in await outcome.originals()


async def test_huge_arguments_of_old_calls_are_cut_and_stay_json():
    context = [
        m for n in range(6) for m in turn(n, "done", tool="Write", path=f"/{n}", content=words(700, seed=str(n)))
    ]
    outcome = await climbed("clear_arguments", context)
    assert_no_summary(outcome)
    inputs = [b.input for m in outcome.agent.state.context for b in m.content if b.type == "tool_call"]
    assert [len(text) < 1000 for text in inputs] == [True] * 4 + [False] * 2
    assert all(f'"path": "/{n}"' in text for n, text in enumerate(inputs))


async def test_the_oldest_half_of_the_turns_is_dropped_and_can_be_read_back():
    outcome = await climbed("drop_turns", history(12, size=350))
    assert len(outcome.model.requests) == 1
    questions = [n for n in range(12) if f"Question {n}:" in outcome.text]
    assert questions == list(range(6, 12))
    assert number_of("old-0") in await outcome.originals()


async def test_of_each_finished_turn_question_and_answer_stay():
    outcome = await climbed("turn_texts", history(12, size=350))
    assert len(outcome.model.requests) == 1
    assert all(f"Question {n}:" in outcome.text and f"Answer {n}:" in outcome.text for n in range(12))
    assert not [b for m in outcome.agent.state.context for b in m.content if b.type in {"tool_call", "tool_result"}]
    assert words(350, seed="old-0") in await outcome.originals()


async def test_what_was_cleared_once_has_the_same_bytes_after_the_next_climb():
    outcome = await climbed("clear_results", history(5, size=900), above=())
    before = [line for line in outcome.text.splitlines() if line.startswith("[Cleared")]
    outcome.agent.state.context.extend(history(3, size=900, prefix="more"))
    await outcome.agent.reply(user("And then?"))
    assert len(applied(outcome.agent)) == 2
    after = [line for line in outcome.text.splitlines() if line.startswith("[Cleared")]
    assert after[: len(before)] == before
    assert len(after) > len(before)


class Patient:
    """Waits, while it looks at a context, for something that only the event loop can do."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.is_served = threading.Event()
        self.outcomes: list[bool] = []

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        self.is_asked.set()
        self.outcomes.append(self.is_served.wait(timeout=10))
        return ()


async def test_other_tasks_go_on_while_a_strategy_looks_at_a_context():
    strategy = Patient()
    ladder = LadderConfig(rungs=(strategy, "summarize"))
    model = ScriptedModel(["Done."], context_size=8_000)
    agent = make_agent(model, config=ContextConfig(trigger_ratio=0.5, ladder=ladder), offloader=memory_offloader())
    agent.state.context.extend(history(12, size=350))
    task = asyncio.ensure_future(agent.reply(user("And now?")))
    assert await asyncio.to_thread(strategy.is_asked.wait, 10)
    strategy.is_served.set()
    await task
    assert strategy.outcomes == [True]


@pytest.mark.row("X3", "X6", "X7")
async def test_by_price_a_prepared_summary_is_used_with_results_cleared_behind_it():
    price = Price(cached=0.1, written=1.25, output=5)
    config = ContextConfig(cost=CostConfig(price=price), summary=SummaryConfig(**QUICK))
    agent = an_agent(GOOD, unhurried(fetches(70, size=SIZE)), config=config)

    await agent.reply(user("Look up the topics."))
    await settled()

    used = [receipt for receipt in applied(agent) if receipt.summary != "none"]
    assert used
    assert all(receipt.is_prepared and "headroom" in receipt.why for receipt in used)
    assert all(receipt.rules == ("summarize", "clear_results") and receipt.blocks_shortened for receipt in used)
    assert orphans(agent.state.context) == []
    assert GOOD["current_state"] in summary_text(agent)
