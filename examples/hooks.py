"""Functions of your own before and after each compression."""

import asyncio

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import AfterCompression, BeforeCompression, CompressionMiddleware, ContextConfig, HooksConfig
from ctxkit.testing import ScriptedModel, call


def announce(record: BeforeCompression) -> None:
    """Say what is about to be done."""
    rules = sorted({edit.rule for edit in record.plan.edits if edit.rule})
    print(f"before: {record.messages_before} messages, {record.tokens_before} tokens; {rules or 'a summary'}")


async def account(record: AfterCompression) -> None:
    """Say what came of it; a real one would write to a log or a meter."""
    saved = record.tokens_before - record.tokens_after
    print(f"after:  {record.messages_after} messages, {saved} tokens fewer; {record.receipt.outcome}")


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


async def main() -> None:
    """Run an agent with both."""
    model = ScriptedModel([*(call("read_page", number=number) for number in range(16)), "Read."], context_size=16_000)
    hooks = HooksConfig(before_compression=[announce], after_compression=[account])
    agent = Agent(
        name="reader",
        system_prompt="You read pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
        context_config=ContextConfig(hooks=hooks),
        middlewares=[CompressionMiddleware()],
        react_config=ReActConfig(max_iters=50),
    )
    await agent.reply(UserMsg("user", "Read sixteen pages."))


if __name__ == "__main__":
    asyncio.run(main())
