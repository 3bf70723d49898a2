"""An agent reads forty reports in a window that holds two, and still knows what it was asked."""

import asyncio
import tempfile

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace
from ctxkit.testing import ScriptedModel, call


async def read_report(number: int) -> ToolChunk:
    """Return one report of about 4,000 tokens."""
    lines = [f"report {number}, line {line}: all is well, nothing to tell" for line in range(250)]
    return ToolChunk(content=[TextBlock(text="\n".join(lines))])


async def main() -> None:
    """Let the agent work, then show what is in its context and on the disk."""
    # A model that says what a script tells it, in a window of 16,000 tokens that is enforced; take any of AgentScope's.
    script = [call("read_report", number=number) for number in range(40)]
    model = ScriptedModel([*script, "All forty are well."], context_size=16_000, enforce="cl100k")

    with tempfile.TemporaryDirectory() as workdir:
        agent = Agent(
            name="reader",
            system_prompt="You read reports.",
            model=model,
            toolkit=Toolkit(tools=[FunctionTool(read_report, is_read_only=True)]),
            context_config=ContextConfig(trigger_ratio=0.8, reserve_ratio=0.1, tool_result_limit=3000),
            offloader=LocalWorkspace(workdir=workdir),
            middlewares=[CompressionMiddleware()],
            react_config=ReActConfig(max_iters=50),
        )
        answer = await agent.reply(UserMsg("user", "Read all forty reports. Never quote them."))

        print("answer:   ", answer.get_text_content())
        print("requests: ", len(model.chats), "and", len(model.summary_requests), "for a summary")
        print("largest:  ", max(request.input_tokens for request in model.requests), "tokens of 16000")
        print("refused:  ", sum(request.refused for request in model.requests))


if __name__ == "__main__":
    asyncio.run(main())
