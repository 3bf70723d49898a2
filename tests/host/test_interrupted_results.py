"""A reply that is interrupted while a tool's result is being stored."""

import asyncio
from typing import Any

import pytest
from agentscope.event import ReplyEndEvent, ToolResultEndEvent

from ctxkit import ContextConfig
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import events_of, fetch, make_agent, orphans, text_of, user


class SlowOffloader:
    """Never comes to the end of storing a result."""

    def __init__(self) -> None:
        self.is_storing = asyncio.Event()

    async def offload_context(self, session_id: str, msgs: list[Any], **_: Any) -> str:
        return "context"

    async def offload_tool_result(self, session_id: str, tool_result: Any, **_: Any) -> str:
        self.is_storing.set()
        await asyncio.Event().wait()
        return "never"


@pytest.mark.asyncio
@pytest.mark.row("A7")
@pytest.mark.parametrize("parallel", [1, 2])
async def test_an_interruption_while_a_result_is_stored_ends_the_reply_and_keeps_its_beginning(parallel):
    model = ScriptedModel([[call("fetch", topic=f"t{i}", size=3000) for i in range(parallel)], "never said"])
    offloader = SlowOffloader()
    agent = make_agent(model, config=ContextConfig(tool_result_limit=500), offloader=offloader)
    reply = asyncio.create_task(events_of(agent.reply_stream(user("Look it up."))))
    await offloader.is_storing.wait()
    reply.cancel()
    events = await reply  # the host ends the stream instead of raising

    assert [event.finished_reason for event in events if isinstance(event, ReplyEndEvent)] == ["interrupted"]
    states = [event.state for event in events if isinstance(event, ToolResultEndEvent)]
    assert states == ["interrupted"] * parallel
    assert len(model.chats) == 1
    assert orphans(agent.state.context) == []
    assert fetch("t0", 3000)[:200] in text_of(agent.state.context)
