"""The story of `ctxkit demo` with a real model, which finds its own way through it; it costs some 500,000 input tokens.

Set one of these, and run it again:

    OPENAI_API_KEY       and, if you like, OPENAI_MODEL and OPENAI_BASE_URL (any compatible server)
    ANTHROPIC_API_KEY    and, if you like, ANTHROPIC_MODEL
    DASHSCOPE_API_KEY    and, if you like, DASHSCOPE_MODEL

Any other model of AgentScope's will do: hand it to `survey`.
"""

import asyncio
import hashlib
import json
import os
import sysconfig
import tempfile
from pathlib import Path

from agentscope.agent import Agent, ReActConfig
from agentscope.credential import AnthropicCredential, DashScopeCredential, OpenAICredential
from agentscope.event import CustomEvent, ToolCallStartEvent
from agentscope.message import TextBlock, UserMsg
from agentscope.model import AnthropicChatModel, ChatModelBase, DashScopeChatModel, OpenAIChatModel
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace, TriggersConfig
from ctxkit.cli.story import expected_answer, requests

LIBRARY = Path(sysconfig.get_path("stdlib"))


def model_from_environment() -> ChatModelBase | None:
    """Return a model for the first key that is set, or None."""
    environment = os.environ
    if key := environment.get("OPENAI_API_KEY"):
        credential = OpenAICredential(api_key=key, base_url=environment.get("OPENAI_BASE_URL"))
        return OpenAIChatModel(credential, environment.get("OPENAI_MODEL", "gpt-4.1-mini"))
    if key := environment.get("ANTHROPIC_API_KEY"):
        return AnthropicChatModel(
            AnthropicCredential(api_key=key), environment.get("ANTHROPIC_MODEL", "claude-haiku-4-5")
        )
    if key := environment.get("DASHSCOPE_API_KEY"):
        return DashScopeChatModel(DashScopeCredential(api_key=key), environment.get("DASHSCOPE_MODEL", "qwen-plus"))
    return None


async def inventory() -> ToolChunk:
    """List the top modules of the standard library as JSON: file, lines, and the first 16 digits of its SHA-256."""
    return ToolChunk(content=[TextBlock(text=await asyncio.to_thread(records))])


def records() -> str:
    """Return the inventory."""
    contents = {path.name: path.read_bytes() for path in sorted(LIBRARY.glob("*.py"))}
    return json.dumps(
        [
            {"file": name, "lines": content.count(b"\n"), "digest": hashlib.sha256(content).hexdigest()[:16]}
            for name, content in contents.items()
        ]
    )


async def survey(model: ChatModelBase, workdir: str) -> None:
    """Let a model survey the standard library, in 16,000 tokens however large its window is, and ask it a question."""
    workspace = LocalWorkspace(workdir=workdir)
    await workspace.initialize()
    tools = [tool for tool in await workspace.list_tools() if tool.name in {"Bash", "Glob", "Grep", "Read"}]
    async with CompressionMiddleware() as compression:
        agent = Agent(
            name="librarian",
            system_prompt="You look after a Python installation. Be thorough: look into many files, one after the other.",
            model=model,
            toolkit=Toolkit(tools=[*tools, FunctionTool(inventory, is_read_only=True)]),
            # Nobody is asked: what only reads is allowed, everything else is refused.
            state=AgentState(permission_context=PermissionContext(mode=PermissionMode.EXPLORE)),
            context_config=ContextConfig(tool_result_limit=3000, triggers=TriggersConfig(max_tokens=16_000)),
            offloader=workspace,
            middlewares=[compression],
            react_config=ReActConfig(max_iters=60),
        )
        for request in requests(LIBRARY):
            print("\nuser: ", request)
            async for event in agent.reply_stream(UserMsg("user", request)):
                if isinstance(event, ToolCallStartEvent):
                    print("  calls", event.tool_call_name)
                elif isinstance(event, CustomEvent) and event.name == "ctxkit.compression.done":
                    value = event.value
                    print(
                        f"  compressed {value['tokens_before']} to {value['tokens_after']} tokens, {value['summary']}"
                    )
            print("agent:", agent.state.context[-1].get_text_content())
        print("\nright:", await asyncio.to_thread(expected_answer, LIBRARY))


async def main() -> None:
    """Take a model from the environment, or say what to set."""
    model = model_from_environment()
    if model is None:
        print(__doc__)
        return
    with tempfile.TemporaryDirectory() as workdir:
        await survey(model, workdir)


if __name__ == "__main__":
    asyncio.run(main())
