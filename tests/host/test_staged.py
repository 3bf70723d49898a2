"""Summaries of what no call can take, the order of fallbacks, tries and deadlines, through real agents (O8, O9, O11)."""

import asyncio

import pytest
from agentscope.message import AssistantMsg, TextBlock, ToolResultBlock

from ctxkit import SummaryConfig, SummaryGenerator
from ctxkit.host.session import _compression_s
from ctxkit.sessions import COMPRESSION_GRACE_S
from ctxkit.summary.extractive import NO_HISTORY
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    history,
    make_agent,
    memory_offloader,
    number_of,
    summary_text,
    text_of,
    user,
    words,
)
from tests.host.summaries import GOOD, QUICK, an_agent, lowered

pytestmark = pytest.mark.asyncio

SMALL = 4096


class ServerDownError(Exception):
    status_code = 503


def parts_of(model):
    """Return the texts of the requests that ask for a summary of one part."""
    return [text for request in model.summary_requests if "This is part " in (text := text_of(request.messages))]


@pytest.mark.row("O8")
async def test_parts_have_about_equal_weight_and_four_messages_at_least_and_are_merged():
    model = ScriptedModel(context_size=SMALL, summaries=GOOD, enforce="cl100k")
    fields = await SummaryGenerator(model).generate(history(30, size=60))
    parts = parts_of(model)
    assert len(parts) > 2
    assert [len(part.split("user]")) + len(part.split("answers ")) >= 4 for part in parts] == [True] * len(parts)
    assert min(map(len, parts)) > 0.5 * max(map(len, parts))
    assert all(number_of(f"old-{i}") in "\n".join(parts) for i in range(30))
    assert "Merge these partial summaries" in text_of(model.summary_requests[-1].messages)
    assert fields == GOOD


@pytest.mark.row("O8")
async def test_the_summary_before_is_fenced_where_it_is_shown_without_its_request():
    model = ScriptedModel(context_size=100_000, summaries=GOOD)
    await SummaryGenerator(model).generate(history(3), previous="Earlier: the key is under the mat.")
    first = text_of(model.summary_requests[0].messages[:1])
    nonce = first.partition("<record ")[2].partition(">")[0]
    assert len(nonce) >= 8
    assert f"<record {nonce}>\nEarlier: the key is under the mat.\n</record {nonce}>" in first


def with_giant(turns):
    made = call("fetch", topic="giant")
    made.state = "finished"
    giant = ToolResultBlock(id=made.id, name="fetch", output=[TextBlock(text="GIANT-1 " + words(9000, seed="giant"))])
    return [*history(turns, size=40), AssistantMsg(name="scribe", content=[made, giant])]


@pytest.mark.row("O9")
async def test_where_all_of_it_fails_it_is_summarised_without_what_is_oversized_and_says_so():
    def no_giants(messages):
        return ServerDownError("content filter") if "GIANT-1" in text_of(messages) else GOOD

    model = ScriptedModel(context_size=20_000, summaries=no_giants)
    fields = await SummaryGenerator(model, lowered(summary=SummaryConfig(attempts=1, **QUICK))).generate(with_giant(6))
    assert fields["task_overview"] == GOOD["task_overview"]
    assert "Not in this summary:\n- assistant scribe calls fetch" in fields["context_to_preserve"]
    assert "left out for its size" in fields["context_to_preserve"]
    asked = text_of(model.summary_requests[-1].messages)
    assert number_of("old-0") in asked or number_of("old-0") in "\n".join(parts_of(model))


@pytest.mark.row("O9")
async def test_where_no_call_succeeds_ledger_and_reference_stand_beside_what_code_could_find():
    agent, _ = an_agent(ServerDownError("down"), config=lowered(summary=SummaryConfig(attempts=1, **QUICK)))
    await agent.compress_context()
    text = summary_text(agent)
    assert applied(agent)[0].summary == "extractive"
    assert "# Ledger" in text
    assert applied(agent)[0].reference in text
    assert number_of("old-0") in text


@pytest.mark.row("O9")
async def test_a_history_of_which_nothing_is_known_has_the_generic_text():
    model = ScriptedModel(context_size=2048, summaries=ServerDownError("down"))
    agent = make_agent(model, config=lowered(summary=SummaryConfig(attempts=1, **QUICK)), offloader=memory_offloader())
    agent.state.context.extend(AssistantMsg(name="scribe", content=[TextBlock(text="…" * 900)]) for _ in range(12))
    agent.state.context.append(user("Go on."))
    await agent.compress_context()
    assert NO_HISTORY in summary_text(agent)


@pytest.mark.row("O11")
async def test_a_summary_is_tried_three_times_with_growing_waits_up_to_the_longest(monkeypatch):
    waits = []

    async def sleep(seconds, *rest):
        if seconds:
            waits.append(seconds)
        await real(0)

    real = asyncio.sleep
    monkeypatch.setattr("ctxkit.summary.asking.asyncio.sleep", sleep)
    summary = SummaryConfig(timeout_s=300, attempts=5, retry_delay_s=0.5, retry_delay_max_s=1.5, warm=True)
    agent, model = an_agent(ServerDownError("busy"), config=lowered(summary=summary))
    await agent.compress_context()
    assert waits[:4] == [0.5, 1.0, 1.5, 1.5]
    assert applied(agent)[0].summary == "extractive"
    assert len(model.summary_requests) == 10  # five warm, five by the host's structured output


@pytest.mark.row("O11")
async def test_the_hold_of_the_lock_lasts_the_deadline_and_two_minutes_more():
    agent, _ = an_agent(config=lowered(summary=SummaryConfig(timeout_s=300)))
    assert COMPRESSION_GRACE_S == 120
    assert _compression_s(agent) == 420
