"""The ledger through a real agent: what code found in calls and results is told, kept, and found again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agentscope.message import AssistantMsg, Msg, ToolCallBlock, ToolResultBlock

from ctxkit import ContextConfig, Deed, LadderConfig, SummaryConfig, register_tool_adapter
from ctxkit.ledger import unregister_tool_adapter
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    summary_text,
    text_of,
    user,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = [pytest.mark.asyncio, pytest.mark.row("X9")]
WINDOW = 16_000
CONFIG = ContextConfig(
    trigger_ratio=0.6, ladder=LadderConfig(rungs=("summarize",)), summary=SummaryConfig(prepare=False)
)


def did(number: str, tool: str, output: str, *, fails: bool = False, **arguments: Any) -> Msg:
    """Return a call and its result, as the host keeps them."""
    state = "error" if fails else "success"
    return AssistantMsg(
        name="scribe",
        content=[
            ToolCallBlock(id=number, name=tool, input=json.dumps(arguments)),
            ToolResultBlock(id=number, name=tool, output=output, state=state),
        ],
    )


async def summarised(*messages: Msg) -> str:
    """Return the summary layer of an agent that did this, and then so much else that it left the context."""
    agent = make_agent(ScriptedModel(["Done."], context_size=WINDOW), config=CONFIG, offloader=memory_offloader())
    agent.state.context.extend([user("Never touch prod.yaml. Fix the build."), *messages, *history(30)])
    await agent.reply(user("Go on."))
    return summary_text(agent)


async def test_what_the_hosts_tools_did_is_told_without_a_model():
    said = await summarised(
        did("1", "Write", "The file has been written successfully", file_path="/repo/new.py", content="x = 1"),
        did("2", "Read", "1\told", file_path="/repo/old.py"),
        did("3", "Edit", "edited", file_path="/repo/old.py", old_string="old", new_string="young"),
        did("4", "Bash", "Command failed: rm /repo/gone.py", fails=True, command="rm /repo/gone.py"),
        did("5", "Bash", "", command="rm /repo/stale.py"),
        did("6", "Glob", "/repo/src/only_listed.py", pattern="*.py", path="/repo/src"),
        did("7", "TaskCreate", "Task (id=7) created successfully: ship it", subject="ship it", description="all"),
    )
    assert "Files modified: /repo/old.py" in said
    assert "Files created: /repo/new.py" in said
    assert "Files deleted: /repo/stale.py" in said
    assert "Files read" not in said
    assert "task 7 is waiting" in said
    assert "Never touch prod.yaml." in said


async def test_an_error_is_told_as_open_until_the_same_goes_well():
    failed = did(
        "1",
        "Bash",
        "FAILED tests/a.py::test_x - KeyError: k\nexit code 1",
        fails=True,
        command="cd /repo && pytest tests/a.py",
    )
    unresolved = (await summarised(failed)).partition("Not resolved, newest first:")[2]
    assert "pytest tests/a.py -> exit 1" in unresolved
    assert "test failed: tests/a.py::test_x" in unresolved
    fixed = did("2", "Bash", "1 passed\nexit code 0", command="cd /repo && pytest tests/a.py")
    assert "Not resolved" not in await summarised(failed, fixed)


async def test_the_result_of_an_open_error_stays_where_others_are_cleared():
    config = ContextConfig(
        trigger_ratio=0.6, ladder=LadderConfig(rungs=("clear_results",)), summary=SummaryConfig(prepare=False)
    )
    agent = make_agent(ScriptedModel(["Done."], context_size=WINDOW), config=config, offloader=memory_offloader())
    output = f"error: cannot link\n{words(300)}\nexit code 2"
    agent.state.context.extend([user("Build."), did("bad", "Bash", output, fails=True, command="make all")])
    agent.state.context.extend(history(30))
    await agent.reply(user("Go on."))
    results = [b for m in agent.state.context for b in m.content if b.type == "tool_result"]
    assert [b.output for b in results if b.id == "bad"] == [output]
    assert any(b.metadata.get("ctxkit", {}).get("cleared") for b in results)


async def test_what_has_no_room_in_the_ledger_is_found_by_one_search():
    asked: list[str] = []

    def search(messages: Sequence[Msg]) -> list[ToolCallBlock]:
        shown = text_of(messages)
        topic = next(f"topic-{n}" for n in range(120) if number_of(f"topic-{n}") not in shown)
        asked.append(topic)
        return [call("search_context", query=f"report on {topic}")]

    model = ScriptedModel([*fetches(120), search, "Done."], context_size=WINDOW)
    agent = make_agent(model, config=CONFIG, offloader=memory_offloader())
    await agent.reply(user("Look all up."))
    assert number_of(asked[0]) in text_of(model.chats[-1].messages)


async def test_compacting_a_history_that_has_not_changed_changes_nothing():
    agent = make_agent(ScriptedModel(["Done."], context_size=WINDOW), config=CONFIG, offloader=memory_offloader())
    agent.state.context.extend([user("Keep the tests green."), *history(30)])
    await agent.reply(user("Go on."))
    before, context = summary_text(agent), [message.model_dump() for message in agent.state.context]
    await agent.compress_context()
    assert (summary_text(agent), [message.model_dump() for message in agent.state.context]) == (before, context)


async def test_an_own_adapter_says_what_a_tool_did():
    class Deployments:
        def deed_of(self, name: str, arguments: Mapping[str, Any], result: str, state: str) -> Deed | None:
            failed = result if result.startswith("rejected") else None
            return Deed(work=str(arguments["stage"]), files=(("deploy.log", "modified"),), problem=failed)

    register_tool_adapter(Deployments(), tools=["ship_*"])
    try:
        said = await summarised(
            did("1", "ship_it", "rejected: frozen", stage="production"),
            did("2", "ship_it", "rejected: no key", stage="staging"),
            did("3", "ship_it", "shipped", stage="staging"),
        )
    finally:
        unregister_tool_adapter(tools=["ship_*"])
    unresolved = said.partition("Not resolved, newest first:")[2]
    assert "rejected: frozen" in unresolved
    assert "rejected: no key" not in unresolved
    assert "Files modified: deploy.log" in said
