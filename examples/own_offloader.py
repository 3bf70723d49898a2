"""An offloader of your own: two methods are enough, and one that fails costs a warning, never data."""

import asyncio
from typing import Any

from agentscope.agent import Agent, ReActConfig
from agentscope.message import Msg, TextBlock, ToolResultBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.testing import ScriptedModel, call


class Shelf:
    """Keeps everything in a dict; a real one would write to a queue, a bucket, a table."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}

    async def offload_context(self, session_id: str, msgs: list[Msg], **_: Any) -> str:
        """Store messages that leave the context and return where."""
        reference = f"shelf://{session_id}/context"
        self.kept.setdefault(reference, []).extend(msg.model_dump_json() for msg in msgs)
        return reference

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock, **_: Any) -> str:
        """Store a whole tool result and return where."""
        reference = f"shelf://{session_id}/{tool_result.id}"
        self.kept.setdefault(reference, []).append(tool_result.model_dump_json())
        return reference


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 8,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 1300)])


async def main() -> None:
    """Run an agent with it, and look at the shelf."""
    shelf = Shelf()
    model = ScriptedModel([*(call("read_page", number=number) for number in range(12)), "Read."], context_size=16_000)
    agent = Agent(
        name="reader",
        system_prompt="You read pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
        context_config=ContextConfig(tool_result_limit=2000),
        offloader=shelf,
        middlewares=[CompressionMiddleware()],
        react_config=ReActConfig(max_iters=50),
    )
    await agent.reply(UserMsg("user", "Read twelve pages."))
    for reference, texts in shelf.kept.items():
        print(f"{len(texts):>3} in {reference}")


if __name__ == "__main__":
    asyncio.run(main())
