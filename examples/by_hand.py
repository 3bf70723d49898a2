"""Compress by hand: at a moment of your choice, with a config for this one call, and see what came of it."""

import asyncio
import tempfile

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace
from ctxkit.testing import ScriptedModel, call


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


async def main() -> None:
    """Compress after a chapter, not when the window is full."""
    model = ScriptedModel([*(call("read_page", number=number) for number in range(6)), "Read."], context_size=32_000)
    with tempfile.TemporaryDirectory() as workdir:
        async with CompressionMiddleware() as compression:
            agent = Agent(
                name="reader",
                system_prompt="You read pages.",
                model=model,
                toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
                context_config=ContextConfig(),
                offloader=LocalWorkspace(workdir=workdir),
                middlewares=[compression],
                react_config=ReActConfig(max_iters=50),
            )
            await agent.reply(UserMsg("user", "Read the first chapter, six pages."))

            # Below the trigger of the agent's own config: nothing happens, and nothing is spent.
            await agent.compress_context()
            # From 20% of the window on, for this one call.
            await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.2, reserve_ratio=0.05))

            for receipt in compression.receipts(agent):
                print(f"{receipt.outcome}: {receipt.tokens_before} -> {receipt.tokens_after} tokens")


if __name__ == "__main__":
    asyncio.run(main())
