"""The same work under the settings of each documented system: when each compresses, and what it leaves."""

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
    """Read forty pages under two profiles, and say what came of it."""
    for profile in ("agentscope", "digitorn"):
        script = [call("read_page", number=number) for number in range(40)]
        summaries = {"summary": "Pages were read."} if profile == "digitorn" else None
        model = ScriptedModel([*script, "Read."], context_size=64_000, summaries=summaries)
        middleware = CompressionMiddleware()
        with tempfile.TemporaryDirectory() as workdir:
            agent = Agent(
                name="reader",
                system_prompt="You read pages.",
                model=model,
                toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
                context_config=ContextConfig.profile(profile),
                offloader=LocalWorkspace(workdir=workdir),
                middlewares=[middleware],
                react_config=ReActConfig(max_iters=50),
            )
            await agent.reply(UserMsg("user", "Read forty pages."))
            applied = [receipt for receipt in middleware.receipts(agent) if receipt.outcome == "applied"]
        print(f"{profile}: {len(applied)} compressions")
        for receipt in applied:
            print(f"  {receipt.tokens_before:,} -> {receipt.tokens_after:,} tokens: {receipt.why}")


if __name__ == "__main__":
    asyncio.run(main())
