"""A cheap model writes the summaries; whether that pays is a matter of two prices."""

import asyncio

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, MemoryStore, StoreOffloader, SummaryConfig
from ctxkit import HostCodec as Codec
from ctxkit.testing import ScriptedModel, call


def pays(
    *,
    cheap_usd: float,
    main_usd: float,
    cached: float,
    history: int,
    cheap_out: float,
    main_out: float,
    answer: int = 1500,
) -> bool:
    """Return whether a cheap model's summary costs less than one of the agent's model that finds its cache warm.

    Args:
        cheap_usd: Dollars of a million input tokens of the cheap model, which has nothing of the history in its cache.
        main_usd: The same of the agent's model, uncached.
        cached: What a cached token of the agent's model costs, in uncached ones.
        history: Tokens of the history.
        cheap_out: Dollars of a million output tokens of the cheap model.
        main_out: The same of the agent's model.
        answer: Tokens of the summary.
    """
    cheap = cheap_usd * history + cheap_out * answer
    main = cached * main_usd * history + main_out * answer
    print(f"  {history} tokens: cheap ${cheap / 1e6:.4f}, the agent's own model ${main / 1e6:.4f}")
    return cheap < main


async def read_report(number: int) -> ToolChunk:
    """Return one report of about 4,000 tokens."""
    lines = [f"report {number}, line {line}: all is well, nothing to tell" for line in range(250)]
    return ToolChunk(content=[TextBlock(text="\n".join(lines))])


async def main() -> None:
    """Let a cheap model with a window of its own write the summaries of an agent that reads twelve reports."""
    print("pays at a third of the price: ", pays(cheap_usd=1, main_usd=3, cached=0.1, history=100_000, cheap_out=5, main_out=15))  # fmt: skip
    print("pays at a thirtieth:          ", pays(cheap_usd=0.1, main_usd=3, cached=0.1, history=100_000, cheap_out=0.4, main_out=15))  # fmt: skip

    script = [call("read_report", number=number) for number in range(12)]
    model = ScriptedModel([*script, "All twelve are well."], context_size=32_000, enforce="cl100k")
    cheap = ScriptedModel(context_size=16_000, enforce="cl100k", model="cheap")
    async with CompressionMiddleware() as compression:
        agent = Agent(
            name="reader",
            system_prompt="You read reports.",
            model=model,
            toolkit=Toolkit(tools=[FunctionTool(read_report, is_read_only=True)]),
            context_config=ContextConfig(trigger_ratio=0.8, summary=SummaryConfig(model=cheap)),
            offloader=StoreOffloader(MemoryStore(), Codec()),
            middlewares=[compression],
            react_config=ReActConfig(max_iters=50),
        )
        answer = await agent.reply(UserMsg("user", "Read all twelve reports."))
        await compression.compact(agent)
    print("answer:                       ", answer.get_text_content())
    print("summaries of the cheap model: ", len(cheap.summary_requests))
    print("of the agent's own:           ", len(model.summary_requests))


if __name__ == "__main__":
    asyncio.run(main())
