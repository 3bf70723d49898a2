"""A strategy of your own: one method, and it is a rung of the ladder like any other."""

import asyncio

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    Edit,
    EditKind,
    HostCodec,
    LadderConfig,
    MemoryStore,
    Situation,
    StoreOffloader,
)
from ctxkit.testing import ScriptedModel, call


class OldScreenshots:
    """Clears screenshots but for the newest two: a page that was left says nothing of the page that is open."""

    name = "old_screenshots"

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each old screenshot that is still there."""
        shots = [e.result for e in situation.view.exchanges if e.tool == "screenshot" and e.result is not None]
        return tuple(
            Edit(
                kind=EditKind.CLEAR,
                message=place.message,
                message_id=situation.view.messages[place.message].id,
                start=place.block,
                stop=place.block + 1,
                tokens=round(situation.tokens[place.message][place.block]),
                text="[An old screenshot stood here. Original: {reference}]",
            )
            for place in shots[:-2]
            if place.message not in situation.pinned and situation.tokens[place.message][place.block] > 100
        )


async def screenshot(page: int) -> ToolChunk:
    """Return what is to be seen of a page, about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {page}. " + "A button, a field, a list. " * 280)])


async def main() -> None:
    """Run an agent with it, and look at what it did."""
    model = ScriptedModel([*(call("screenshot", page=page) for page in range(20)), "Seen."], context_size=16_000)
    middleware = CompressionMiddleware()
    agent = Agent(
        name="looker",
        system_prompt="You look at pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(screenshot, is_read_only=True)]),
        context_config=ContextConfig(ladder=LadderConfig(rungs=(OldScreenshots(), "clear_results", "summarize"))),
        offloader=StoreOffloader(MemoryStore(), HostCodec()),
        middlewares=[middleware],
        react_config=ReActConfig(max_iters=50),
    )
    await agent.reply(UserMsg("user", "Look at twenty pages."))
    for receipt in middleware.receipts(agent):
        print(
            f"{receipt.tokens_before} tokens, then {receipt.tokens_after}: {receipt.rules}, summary: {receipt.summary}"
        )
    results = [b for message in agent.state.context for b in message.content if b.type == "tool_result"]
    for block in (*results[:2], *results[-2:]):
        text = block.output if isinstance(block.output, str) else block.output[0].text
        print(f"{len(text):>6} characters: {text[:100]}")


if __name__ == "__main__":
    asyncio.run(main())
