"""Settings and rules from a YAML file."""

import asyncio
from pathlib import Path

from agentscope.agent import Agent
from agentscope.message import UserMsg

from ctxkit import CompressionMiddleware, ConfigFileError, ContextConfig, RulesMiddleware, load_config_file
from ctxkit.testing import ScriptedModel

FILE = Path(__file__).parent / "app.yaml"


async def main() -> None:
    """Make an agent as the file says, and show what it says."""
    try:
        loaded = (await asyncio.to_thread(load_config_file, FILE)).config("assistant")
    except ConfigFileError as exc:
        print(*exc.problems, sep="\n")  # FILE:LINE:COLUMN: what, and what to do
        return
    for name, setting in loaded.settings.items():
        print(f"{name} = {setting.value!r}, line {setting.origin.split(':')[-1].split()[0]}")
    print("rules:", ", ".join(rule.id for rule in loaded.rules))
    agent = Agent(
        name="assistant",
        system_prompt="You help.",
        model=ScriptedModel(["Hello."], context_size=64_000),
        context_config=ContextConfig.from_loaded(loaded),
        middlewares=[RulesMiddleware(loaded.rules), CompressionMiddleware()],
    )
    reply = await agent.reply(UserMsg("user", "Hello?"))
    print(reply.content[0].text)


if __name__ == "__main__":
    asyncio.run(main())
