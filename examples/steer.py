"""Steer an agent's context: see what a compression would do, pin a rule, compact, ask what became of it, take it back."""

import asyncio
import tempfile

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, CostConfig, LocalWorkspace, Price
from ctxkit.testing import ScriptedModel, call


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


async def main() -> None:
    """Look before, during and after a compression."""
    model = ScriptedModel([*(call("read_page", number=number) for number in range(8)), "Read."], context_size=64_000)
    # Prices of your own win over the table's; this model is in none.
    cost = CostConfig(price=Price(cached=0.1, written=1.25, output=5.0, input_usd=3.0))
    with tempfile.TemporaryDirectory() as workdir:
        async with CompressionMiddleware() as compression:
            agent = Agent(
                name="reader",
                system_prompt="You read pages.",
                model=model,
                toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
                context_config=ContextConfig(cost=cost),
                offloader=LocalWorkspace(workdir=workdir),
                middlewares=[compression],
                react_config=ReActConfig(max_iters=50),
            )
            await agent.reply(UserMsg("user", "Read the book, eight pages."))
            steering = compression.steering(agent)

            pin = await steering.pin("Quote page numbers in every answer.")
            print(f"pinned in the {pin.where}: {pin.text}")

            estimate = await steering.preview(draft=False)
            print(f"about {estimate.tokens_before} -> {estimate.tokens_after} tokens; no model was asked")

            preview = await steering.preview(focus="page numbers")
            for fate in preview.fates:
                print(f"{fate.what}: blocks {fate.start} to {fate.stop}, {fate.tokens_before} tokens {fate.rule}")
            if preview.bill is not None:
                print(
                    f"pays after {preview.bill.steps_to_pay} steps; {preview.rebilled_tokens} tokens are written anew"
                )

            receipt = await steering.compact(focus="page numbers")
            print(f"{receipt.outcome}: {receipt.tokens_before} -> {receipt.tokens_after} tokens, as the preview said")

            gone = next(fate for fate in preview.fates if fate.what != "kept")
            print((await steering.explain(gone.message_id)).why)

            undone = await steering.undo(receipt.plan_id)
            print(f"{undone.outcome}: {undone.tokens_before} -> {undone.tokens_after} tokens")
            print((await steering.undo()).why)


if __name__ == "__main__":
    asyncio.run(main())
