"""The climb through a real agent: the cheapest rung that makes enough room ends it, and each try is strictly smaller."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ctxkit import ContextConfig, ContextUnfitError, LadderConfig, SummaryConfig
from ctxkit.plan import Edit, EditKind
from ctxkit.strategies.settled import settled
from ctxkit.testing import ScriptedModel
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
)

if TYPE_CHECKING:
    from ctxkit.strategies import Situation

pytestmark = pytest.mark.row("X3")
WINDOW = 16_000
RUNGS = ("deduplicate", "shrink", "clear_results", "clear_thinking", "clear_arguments", "summarize")


def config(*rungs: object, **sections: Any) -> ContextConfig:
    """Return a config with these rungs, or all known ones that keep the pairs, that prepares nothing."""
    ladder = sections.pop("ladder", None) or LadderConfig(rungs=rungs or RUNGS)
    return ContextConfig(trigger_ratio=0.6, ladder=ladder, summary=SummaryConfig(prepare=False), **sections)


def cleared(agent: Any) -> list[str]:
    """Return the outputs of the results that were cleared."""
    blocks = [block for message in agent.state.context for block in message.content if block.type == "tool_result"]
    return [str(block.output) for block in blocks if block.metadata.get("ctxkit", {}).get("cleared")]


@pytest.mark.asyncio
async def test_where_clearing_makes_enough_room_no_summary_is_asked_for():
    model = ScriptedModel(["Done."], context_size=WINDOW)
    agent = make_agent(model, config=config(), offloader=memory_offloader())
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert (receipt.summary, receipt.rules, receipt.usage) == ("none", ("clear_results",), None)
    assert model.summary_requests == []
    assert receipt.tokens_after < receipt.limit_tokens <= receipt.tokens_before
    assert receipt.stable_tokens < receipt.tokens_after
    assert "clear_results made enough room" in receipt.why
    assert cleared(agent)
    assert not orphans(agent.state.context)
    assert summary_text(agent) == ""


@pytest.mark.asyncio
async def test_where_the_rungs_before_it_are_not_enough_a_summary_is_made_and_what_stays_is_not_cleared():
    model = ScriptedModel(["Done."], context_size=WINDOW)
    agent = make_agent(
        model, config=config("deduplicate", "shrink", "summarize", "clear_results"), offloader=memory_offloader()
    )
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert (receipt.summary, receipt.rules) == ("warm", ("summarize",))
    assert receipt.usage is not None
    assert cleared(agent) == []


@pytest.mark.asyncio
@pytest.mark.row("X9")
async def test_what_was_cleared_is_in_the_ledger_of_the_next_summary():
    model = ScriptedModel([*fetches(25, prefix="new"), "Done."], context_size=WINDOW)
    agent = make_agent(model, config=config(), offloader=memory_offloader())
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))
    assert applied(agent)[0].summary == "none"
    gone = [number_of(f"old-{i}") for i in range(5)]
    while not model.summary_requests:
        model.extend([*fetches(10, prefix=f"more-{len(applied(agent))}"), "Done."])
        await agent.reply(user("And more."))

    names = agent.state.middle_context["ctxkit"]["summary"]["state"]["ledger"]["identifiers"]
    assert {name for name, *_ in names} >= set(gone)


@dataclass(frozen=True)
class Own:
    """Clears every result of `fetch` that is over, in its own words."""

    name: str = "own"
    text: str = "[fetched before: {reference}]"

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        return tuple(
            Edit(
                kind=EditKind.CLEAR,
                message=one.result_place.message,
                message_id=situation.view.messages[one.result_place.message].id,
                start=one.result_place.block,
                stop=one.result_place.block + 1,
                tokens=300,
                text=self.text,
            )
            for one in settled(situation)
        )


class Bad:
    """Takes the newest request away."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        index = situation.view.latest_request[-1]
        message_id = situation.view.messages[index].id
        return (Edit(kind=EditKind.DROP, message=index, message_id=message_id, start=0, stop=1, tokens=1),)


class Raising:
    """Fails."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        raise ValueError(len(situation.view))


@pytest.mark.asyncio
async def test_an_own_strategy_is_a_rung_and_its_originals_are_stored_first():
    agent = make_agent(
        ScriptedModel(["Done."], context_size=WINDOW), config=config(Own(), "summarize"), offloader=memory_offloader()
    )
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert (receipt.summary, receipt.rules) == ("none", ("own",))
    assert len(cleared(agent)) == 30
    assert all("tool_result" in text and "{reference}" not in text for text in cleared(agent))


@pytest.mark.asyncio
async def test_without_an_offloader_the_line_says_that_nothing_is_stored():
    agent = make_agent(
        ScriptedModel(["Done."], context_size=WINDOW),
        config=config(Own(), "summarize"),
        offloader=None,
    )
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    assert set(cleared(agent)) == {"[fetched before: not stored]"} or all("read_context" in t for t in cleared(agent))


@pytest.mark.asyncio
@pytest.mark.parametrize(("bad", "problem"), [(Bad(), "the newest user request"), (Raising(), "it raised ValueError")])
async def test_a_strategy_that_fails_or_breaks_a_rule_costs_its_own_edits_and_no_more(
    bad: object, problem: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.CRITICAL, logger="ctxkit")
    agent = make_agent(
        ScriptedModel(["Done."], context_size=WINDOW), config=config(bad, "clear_results"), offloader=memory_offloader()
    )
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert receipt.rules == ("clear_results",)
    assert any(type(bad).__name__ in line and problem in line for line in receipt.problems)
    assert "Go on." in text_of(agent.state.context)


@pytest.mark.asyncio
async def test_a_rung_that_frees_nothing_has_no_part_in_the_plan():
    agent = make_agent(
        ScriptedModel(["Done."], context_size=WINDOW),
        config=config("deduplicate", "shrink", "clear_thinking", "clear_results", "summarize"),
        offloader=memory_offloader(),
    )
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    assert applied(agent)[0].rules == ("clear_results",)


@pytest.mark.asyncio
@pytest.mark.row("D1")
@pytest.mark.parametrize("keep_messages", [None, 10])
async def test_truncate_drops_the_oldest_messages_without_a_model_and_says_so(keep_messages: int | None):
    model = ScriptedModel(["Done."], context_size=WINDOW)
    ladder = LadderConfig(strategy="truncate", rungs=("summarize",), keep_messages=keep_messages)
    agent = make_agent(model, config=config(ladder=ladder), offloader=memory_offloader())
    agent.state.context.extend(history(30))

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert (receipt.summary, receipt.rules, model.summary_requests) == ("none", ("truncate",), [])
    assert "[Earlier messages truncated]" in summary_text(agent)
    assert receipt.reference in summary_text(agent)
    assert "Question 0:" not in text_of(agent.state.context)
    if keep_messages is not None:
        # A question, a call, a result and an answer are four messages; the newest request and the host's hint are two.
        assert text_of(agent.state.context).count("Question ") == 2


@pytest.mark.asyncio
async def test_what_cannot_fit_is_refused_with_its_biggest_parts():
    agent = make_agent(
        ScriptedModel(["Done."], context_size=2_000),
        config=config(),
        prompt="rule " * 4000,
        offloader=memory_offloader(),
    )

    with pytest.raises(ContextUnfitError, match=r"Biggest parts: system prompt \("):
        await agent.reply(user("Go on."))
