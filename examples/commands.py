"""Commands: a person asks how full the context is, changes a limit, compresses and clears, and no model is asked for it."""

import asyncio

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import (
    Commands,
    CommandsMiddleware,
    CompressionMiddleware,
    HostCodec,
    MemoryStore,
    SessionMiddleware,
    StoreOffloader,
)
from ctxkit.sessions import MemorySessionStore
from ctxkit.testing import ScriptedModel, call


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 500 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 80)])


async def chat(agent: Agent, text: str) -> None:
    """Say something in the chat, as any front end does."""
    answer = await agent.reply(UserMsg("user", text))
    print(f"> {text}\n{answer.get_text_content()}\n")


async def main() -> None:
    """Type commands into a chat, and ask one beside it."""
    model = ScriptedModel([*(call("read_page", number=number) for number in range(6)), "Read."], context_size=16_000)
    agent = Agent(
        name="reader",
        system_prompt="You read pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
        offloader=StoreOffloader(MemoryStore(), HostCodec()),
        middlewares=[CommandsMiddleware(), SessionMiddleware(MemorySessionStore()), CompressionMiddleware()],
        react_config=ReActConfig(max_iters=50),
    )
    await chat(agent, "Read six pages.")
    asked = len(model.requests)
    await chat(agent, "/context")
    await chat(agent, "/config agent_max_context_turns 30")
    await chat(agent, "/config")
    await chat(agent, "/compact what page 3 says")
    await chat(agent, "/context clear")
    print(f"Beside the chat: {await Commands(agent).handle('/config agent_max_context_turns')}\n")
    print(f"{len(model.requests) - asked} model call, for the summary.")


if __name__ == "__main__":
    asyncio.run(main())
