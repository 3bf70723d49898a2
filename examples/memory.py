"""A memory: what leaves the context is in a diary, and another conversation finds it again."""

import asyncio
import tempfile
from pathlib import Path

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, Flushed, MemoryConfig, MemoryMiddleware
from ctxkit.testing import ScriptedModel, call

ENTRY = "[DAILY]\n- The book has 16 pages; ticket AB-1234 asks for an index.\n[MEMORY]\nThe pages are read, the index is next."


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


def an_agent(model: ScriptedModel, memory: MemoryMiddleware) -> Agent:
    """Return an agent with a memory."""
    return Agent(
        name="reader",
        system_prompt="You read pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
        context_config=ContextConfig(),
        middlewares=[CompressionMiddleware(), memory],
        react_config=ReActConfig(max_iters=50),
    )


def announce(entry: Flushed) -> None:
    """Say what was written; `entry.memory` is there to be put into a context."""
    print(f"{Path(entry.path).parent}: {entry.memory} (by a model: {not entry.is_extractive})")


async def main() -> None:
    """Read a book in one conversation, and ask about it in another one."""
    with tempfile.TemporaryDirectory() as directory:
        rules = Path(directory, "AGENTS.md")
        await asyncio.to_thread(rules.write_text, "Answer in one sentence.", encoding="utf-8")
        config = MemoryConfig(time_zone="UTC")
        pages = [call("read_page", number=number) for number in range(16)]
        async with MemoryMiddleware(directory, config=config, context_summary_callback=announce) as memory:
            model = ScriptedModel([*pages, "Read."], context_size=16_000, memories=ENTRY)
            await an_agent(model, memory).reply(UserMsg("user", "Read sixteen pages."))

        async with MemoryMiddleware(directory, config=config) as memory:
            model = ScriptedModel([call("search_memory", query="AB-1234"), "It asks for an index."])
            agent = an_agent(model, memory)
            answer = await agent.reply(UserMsg("user", "What was AB-1234 about?"))
            print(answer.get_text_content())
            for hit in await (await memory.memory_of(agent)).search("index", k=1):
                print(f"found: {hit.text.splitlines()[0]}")


if __name__ == "__main__":
    asyncio.run(main())
