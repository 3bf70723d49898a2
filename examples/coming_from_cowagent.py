"""CowAgent's settings: half of the turns goes where there are too many, and its summary comes with the next turn."""

import asyncio
import tempfile
from pathlib import Path

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.state import AgentState

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    Flushed,
    LocalWorkspace,
    MemoryMiddleware,
    SessionMiddleware,
    SqliteSessionStore,
)
from ctxkit.testing import ScriptedModel

ENTRY = "[DAILY]\n- Ada asked for ticket AB-1234.\n[MEMORY]\nAda waits for AB-1234."


async def main() -> None:
    """Talk for eight turns where six are allowed."""
    written = asyncio.Event()

    def tell(_: Flushed) -> None:
        written.set()

    model = ScriptedModel([f"Answer {number}." for number in range(8)], memories=ENTRY)
    with tempfile.TemporaryDirectory() as root:
        sessions = SqliteSessionStore(Path(root, "sessions.db"))
        async with (
            SessionMiddleware.profile("cowagent", sessions) as session,
            CompressionMiddleware() as compression,
            MemoryMiddleware(root, context_summary_callback=tell) as memory,
        ):
            agent = Agent(
                name="cow",
                system_prompt="You answer Ada.",
                model=model,
                state=AgentState(session_id="ada"),
                context_config=ContextConfig.profile("cowagent", triggers={"max_turns": 6}),
                offloader=LocalWorkspace(workdir=root),
                middlewares=[session, compression, memory],
            )
            for number in range(7):
                await agent.reply(UserMsg("user", f"Question {number}?"))
            await written.wait()  # nobody has to: what is not written by then comes a turn later
            await agent.reply(UserMsg("user", "Question 7?"))
            for receipt in compression.receipts(agent):
                print(f"{receipt.reason}: {receipt.why}")
        await sessions.aclose()
    first = model.chats[-1].messages[1]
    print("\n".join(block.text for block in first.content[-2:] if block.type == "text"))


if __name__ == "__main__":
    asyncio.run(main())
