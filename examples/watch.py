"""What ctxkit does, as it does it: events in AgentScope's stream, and a receipt of each compression."""

import asyncio

from agentscope.agent import Agent, ReActConfig
from agentscope.event import CustomEvent
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.testing import ScriptedModel, call


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


async def main() -> None:
    """Print ctxkit's events while an agent works, then its receipts."""
    model = ScriptedModel([*(call("read_page", number=number) for number in range(12)), "Read."], context_size=16_000)
    async with CompressionMiddleware() as compression:
        agent = Agent(
            name="reader",
            system_prompt="You read pages.",
            model=model,
            toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
            context_config=ContextConfig(trigger_ratio=0.6),
            middlewares=[compression],
            react_config=ReActConfig(max_iters=50),
        )
        async for event in agent.reply_stream(UserMsg("user", "Read twelve pages.")):
            if isinstance(event, CustomEvent) and event.name.startswith("ctxkit."):
                known = ("stage", "tool", "tokens_before", "tokens_after", "summary")
                print(event.name, {name: event.value[name] for name in known if name in event.value})

        for receipt in compression.receipts(agent):
            print(f"{receipt.outcome}: {receipt.tokens_before} -> {receipt.tokens_after} tokens, {receipt.summary}")


if __name__ == "__main__":
    asyncio.run(main())
