"""The reminder behind the summary (row D5): tools and what was accomplished, replaced at each compression, and counted."""

import pytest

from ctxkit import ContextConfig, SummaryConfig
from ctxkit.summary.reminder import TITLE
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, fetch, fetches, make_agent, memory_offloader, summary_text, user

pytestmark = [pytest.mark.asyncio, pytest.mark.row("D5")]


def a_tool(name):
    def tool(topic: str) -> str:
        """Look at a topic.

        Args:
            topic (str): The topic.
        """
        return topic

    tool.__name__ = name
    return tool


def config(**summary):
    return ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1, summary=SummaryConfig(prepare=False, **summary))


async def test_after_a_compression_the_agent_is_told_its_tools_and_what_it_did_once():
    def run_tests(command: str) -> str:
        """Run a command.

        Args:
            command (str): The command line.
        """
        return "1 passed\nexit code: 0"

    model = ScriptedModel(
        [call("run_tests", command="pytest tests -q"), *fetches(60), "done"], context_size=8192, enforce="cl100k"
    )
    agent = make_agent(model, config=config(reminder=True), tools=(fetch, run_tests), offloader=memory_offloader())

    await agent.reply(user("Look up sixty topics."))

    assert len(applied(agent)) > 1
    layer = summary_text(agent)
    assert layer.count(TITLE) == 1
    reminder = layer[layer.index(TITLE) :]
    assert "fetch" in reminder
    assert "run_tests" in reminder
    assert "pytest tests -q -> ok" in reminder
    assert max(request.input_tokens for request in model.chats) <= 8192


async def test_a_large_toolset_is_named_by_its_groups():
    tools = [fetch, *(a_tool(f"github__tool_{n}") for n in range(25))]
    model = ScriptedModel([*fetches(40), "done"], context_size=16384, enforce="cl100k")
    agent = make_agent(model, config=config(reminder=True), tools=tools, offloader=memory_offloader())

    await agent.reply(user("Look up forty topics."))

    reminder = summary_text(agent).partition(TITLE)[2]
    assert "github (25)" in reminder
    assert "github__tool_3" not in reminder


async def test_without_the_switch_there_is_no_reminder():
    model = ScriptedModel([*fetches(40), "done"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, config=config(), offloader=memory_offloader())

    await agent.reply(user("Look up forty topics."))

    assert applied(agent)
    assert TITLE not in summary_text(agent)


async def test_what_is_truncated_without_a_summary_leaves_the_reminder_too():
    settings = ContextConfig(
        trigger_ratio=0.5,
        reserve_ratio=0.1,
        summary=SummaryConfig(reminder=True),
        ladder={"strategy": "truncate", "rungs": ("summarize",)},
    )
    model = ScriptedModel([*fetches(40), "done"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, config=settings, offloader=memory_offloader())

    await agent.reply(user("Look up forty topics."))

    assert "[Earlier messages truncated]" in summary_text(agent)
    assert "Your tools: " in summary_text(agent).partition(TITLE)[2]
    assert not model.summary_requests
