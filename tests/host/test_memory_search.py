"""A real agent finds what was written to memory, also when its context was cleared."""

from __future__ import annotations

import pytest
from agentscope.tool import FunctionTool

from ctxkit import (
    CompressionMiddleware,
    MemoryConfig,
    MemoryMiddleware,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    make_agent,
    user,
)
from tests.host.memories import an_agent, diary, use

pytestmark = pytest.mark.asyncio


@pytest.mark.row("C10")
async def test_the_agent_finds_what_was_written_also_when_its_context_was_cleared(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory)
        await agent.reply(user("And now?"))
    agent.state.context.clear()
    agent.state.summary = ""
    async with MemoryMiddleware(tmp_path) as memory:
        script = [call("search_memory", query="AB-1234"), "It is open."]
        fresh = make_agent(ScriptedModel(script), middlewares=[CompressionMiddleware(), memory])
        await fresh.reply(user("What of AB-1234?"))
        [result] = [
            block for message in fresh.state.context for block in message.content if block.type == "tool_result"
        ]
        said = "\n".join(block.text for block in result.output)
        assert result.state == "success"
        assert "Ticket AB-1234 is open." in said
        assert "memory/" in said
        assert "<recalled nonce=" in said
        [hit] = await (await memory.memory_of(fresh)).search("AB-1234", 1)
        assert hit.entry.session_id == agent.state.session_id


@pytest.mark.row("C10")
async def test_a_context_is_remembered_by_hand_before_it_is_cleared_and_once(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent = an_agent(memory)
        entry = await memory.remember(agent)
        assert entry is not None
        assert await memory.remember(agent) == entry
        assert diary(tmp_path).count("- Ticket AB-1234 is open.") == 1
        agent.state.context.clear()
        assert await memory.remember(agent) is None
        assert [hit.entry for hit in await (await memory.memory_of(agent)).search("AB-1234", 1)] == [entry]


@pytest.mark.row("C10")
async def test_an_answer_of_the_tool_keeps_to_its_limit_and_nothing_found_is_said(tmp_path):
    long = (
        "[DAILY]\n"
        + "\n".join(f"- The river {n} was measured at station {n * 7}." for n in range(120))
        + "\n[MEMORY]\nx"
    )
    async with MemoryMiddleware(tmp_path, config=MemoryConfig(max_tokens=8000)) as memory:
        model = ScriptedModel(["Done."], context_size=60_000, memories=long)
        agent = an_agent(memory, model=model, settings={"offload": {"recall_tokens": 200}})
        await memory.remember(agent)
        await agent.reply(user("Hello."))
        said = await use(agent, query="river measured")
        assert await agent.model.count_tokens([user(said)], None) <= 230
        assert "river" in said
        assert "Nothing in memory for 'zebra'" in await use(agent, query="zebra")


@pytest.mark.row("C10")
async def test_agents_that_share_a_toolkit_search_their_own_memory_and_another_ones_tool_stays(tmp_path, caplog):
    def search_memory(query: str) -> str:
        """Search.

        Args:
            query (str): What.
        """
        return "mine"

    async with MemoryMiddleware(tmp_path) as memory:
        tool = FunctionTool(search_memory, is_read_only=True)
        agent = an_agent(memory, tools=[tool])
        await agent.reply(user("Hello."))
        assert await agent.toolkit.get_tool("search_memory") is tool
        assert "another tool named 'search_memory'" in caplog.text
    async with MemoryMiddleware(tmp_path / "a") as one, MemoryMiddleware(tmp_path / "b") as other:
        first, second = an_agent(one), an_agent(other, memories="[DAILY]\n- Nothing much.\n[MEMORY]\nx")
        second.toolkit = first.toolkit
        await one.remember(first)
        await first.reply(user("Hello."))
        await second.reply(user("Hello."))
        assert "AB-1234 is open" in await use(first, query="AB-1234")
        assert "Nothing in memory for 'AB-1234'" in await use(second, query="AB-1234")
