"""Something changes the system prompt at each step, and each request is paid in full: find out what."""

import asyncio
import itertools

from agentscope.agent import Agent
from agentscope.event import CustomEvent
from agentscope.message import TextBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, prefix_audit, wire_request
from ctxkit.testing import ScriptedModel, call


class Clock(MiddlewareBase):
    """The culprit: it tells the time in the system prompt."""

    def __init__(self) -> None:
        self._seconds = itertools.count()

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:  # noqa: ARG002 - as the host calls it
        """Return the prompt with the time in it."""
        return f"{current_prompt} It is 12:00:{next(self._seconds):02}."


async def read_report(number: int) -> ToolChunk:
    """Return one report of about 4,000 tokens."""
    lines = [f"report {number}, line {line}: all is well, nothing to tell" for line in range(250)]
    return ToolChunk(content=[TextBlock(text="\n".join(lines))])


async def main() -> None:
    """Run with the culprit, be told of it, and look at the requests themselves."""
    model = ScriptedModel([call("read_report", number=1), call("read_report", number=2), "All is well."])
    agent = Agent(
        name="reader",
        system_prompt="You read reports.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_report, is_read_only=True)]),
        middlewares=[CompressionMiddleware(), Clock()],
    )
    async for event in agent.reply_stream(UserMsg("user", "Read both.")):
        if isinstance(event, CustomEvent) and event.name == "ctxkit.cache.broken":
            print("told:     ", event.value["component"], "- tokens that stay cached:", event.value["stable_tokens"])

    # The same by hand: how each request looks on the wire, and how far the next one is the same.
    sent = [await wire_request(model, request.messages, request.tools) for request in model.requests]
    for before, after in itertools.pairwise(sent):
        audit = await prefix_audit(before, after)
        print(f"audit:     {audit.component} at {audit.path}, byte {audit.position}: {audit.share:.1%} of it is stable")


if __name__ == "__main__":
    asyncio.run(main())
