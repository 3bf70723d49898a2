"""A ledger adapter of your own: it says what a tool did of which the names say nothing."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agentscope.agent import Agent
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, Deed, register_tool_adapter
from ctxkit.testing import ScriptedModel, call


class Deployments:
    """Says of `ship` which release it was for, and whether it went well."""

    def deed_of(self, name: str, arguments: Mapping[str, Any], result: str, state: str) -> Deed | None:  # noqa: ARG002 - the protocol's
        """Return what a call did: its success shows that an earlier error of the same release is over."""
        target = f"{arguments.get('service')} to {arguments.get('stage')}"
        return Deed(
            work=target, files=(("deploy.log", "modified"),), problem=result if result.startswith("rejected") else None
        )


async def ship(service: str, stage: str) -> ToolChunk:
    """Bring a service to a stage."""
    said = f"shipped {service}. " + "All checks ran. " * 300
    return ToolChunk(content=[TextBlock(text=f"rejected: {stage} is frozen" if stage == "production" else said)])


async def main() -> None:
    """Run an agent with it, and look at what its summary says."""
    register_tool_adapter(Deployments(), tools=["ship"])
    calls = [call("ship", service=f"service-{n}", stage="production" if n == 3 else "staging") for n in range(16)]
    agent = Agent(
        name="shipper",
        system_prompt="You bring services to stages.",
        model=ScriptedModel([*calls, "Done."], context_size=12_000),
        toolkit=Toolkit(tools=[FunctionTool(ship, is_read_only=True)]),
        context_config=ContextConfig(trigger_ratio=0.6),
        middlewares=[CompressionMiddleware()],
    )
    await agent.reply(UserMsg("user", "Ship all services."))
    summary = agent.state.summary
    texts = [summary] if isinstance(summary, str) else [block.text for block in summary if block.type == "text"]
    print("\n".join(line for text in texts for line in text.splitlines() if "rejected" in line or "deploy.log" in line))


if __name__ == "__main__":
    asyncio.run(main())
