"""What left the context is read back: by the agent with a tool, and by a person with any text tool."""

import asyncio
import tempfile
from pathlib import Path

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace
from ctxkit.testing import ScriptedModel, call


async def read_log(host: str) -> ToolChunk:
    """Return the log of one host, about 6,000 tokens."""
    lines = [f"12:{minute:02}:{second:02} {host} request served" for minute in range(10) for second in range(30)]
    if host == "node-3":
        lines[150] = "12:05:00 node-3 disk /dev/nvme7 failed with code ZX-4711"
    return ToolChunk(content=[TextBlock(text="\n".join(lines))])


async def main() -> None:
    """Fill a small window, then ask for a line that left it long ago."""
    script = [
        *(call("read_log", host=f"node-{number}") for number in range(20)),
        "I have read all logs.",
        call("search_context", query="disk failed code"),
        "It was ZX-4711 on node-3.",
    ]
    model = ScriptedModel(script, context_size=16_000, enforce="cl100k")

    with tempfile.TemporaryDirectory() as workdir:
        agent = Agent(
            name="operator",
            system_prompt="You look after machines.",
            model=model,
            toolkit=Toolkit(tools=[FunctionTool(read_log, is_read_only=True)]),
            context_config=ContextConfig(tool_result_limit=3000),
            offloader=LocalWorkspace(workdir=workdir),
            middlewares=[CompressionMiddleware()],
            react_config=ReActConfig(max_iters=50),
        )
        await agent.reply(UserMsg("user", "Read the logs of node-0 to node-19."))
        await agent.reply(UserMsg("user", "Which disk failed, and with which code?"))

        print("What the agent's search found:")
        print(last_tool_result(agent)[:600])
        print()
        print("The same in the files:")
        for path in await asyncio.to_thread(files_with, "ZX-4711", Path(workdir, "sessions")):
            print(" ", path.relative_to(workdir))


def files_with(text: str, folder: Path) -> list[Path]:
    """Return the files in which a text stands, as grep would."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in files if text in path.read_text(encoding="utf-8", errors="replace")]


def last_tool_result(agent: Agent) -> str:
    """Return the text of the newest tool result in an agent's context."""
    results = [block for message in agent.state.context for block in message.get_content_blocks("tool_result")]
    output = results[-1].output
    return output if isinstance(output, str) else "".join(block.text for block in output if block.type == "text")


if __name__ == "__main__":
    asyncio.run(main())
