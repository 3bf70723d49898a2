"""The provider's window is half of what the model object says: ctxkit learns it from the first refusal."""

import asyncio
import tempfile

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, ContextUnfitError, LocalWorkspace
from ctxkit.testing import ScriptedModel, call


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 2,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 320)])


async def main() -> None:
    """Run into the provider's limit, then ask for something that cannot fit."""
    script = [call("read_page", number=number) for number in range(20)]
    # The provider refuses what is above 16,000 tokens; `model.context_size` says 32,000.
    model = ScriptedModel([*script, "Read."], context_size=32_000, enforce="cl100k", limit=16_000)

    with tempfile.TemporaryDirectory() as workdir:
        agent = Agent(
            name="reader",
            system_prompt="You read pages.",
            model=model,
            toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
            context_config=ContextConfig(),
            offloader=LocalWorkspace(workdir=workdir),
            middlewares=[CompressionMiddleware()],
            react_config=ReActConfig(max_iters=50),
        )
        answer = await agent.reply(UserMsg("user", "Read twenty pages."))
        sizes = [request.input_tokens for request in model.requests if not request.refused]
        print("answer:  ", answer.get_text_content())
        print("refused: ", sum(request.refused for request in model.requests))
        print("largest: ", max(sizes), "tokens of 16000")

        # A system prompt that is larger than the window leaves nothing that could be taken away.
        agent = Agent(
            name="hopeless",
            system_prompt="Be careful. " * 10_000,
            model=ScriptedModel(["never said"], context_size=16_000, enforce="cl100k"),
            toolkit=Toolkit(),
            middlewares=[CompressionMiddleware()],
        )
        try:
            await agent.reply(UserMsg("user", "Hello?"))
        except ContextUnfitError as error:
            print("unfit:   ", error)
            for what, tokens in error.biggest[:3]:
                print(f"  {tokens:>6}  {what}")


if __name__ == "__main__":
    asyncio.run(main())
