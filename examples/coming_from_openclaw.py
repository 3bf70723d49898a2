"""OpenClaw's settings: a session by its key, the history limit of its channel, a transcript and a memory on disk."""

import asyncio
import tempfile

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.state import AgentState

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    LocalWorkspace,
    MemoryMiddleware,
    SessionKey,
    SessionMiddleware,
    TranscriptSessionStore,
)
from ctxkit.testing import ScriptedModel

CHANNELS = {
    "telegram": {
        "historyLimit": 20,  # of groups
        "dmHistoryLimit": 50,  # of one person
        "dms": {"ada": {"historyLimit": 2}},
    }
}


async def main() -> None:
    """Talk with one person, whose channel shows the agent two earlier turns."""
    key = SessionKey(agent_id="main", provider="telegram", kind="dm", user_id="ada", thread="123")
    model = ScriptedModel(f"Answer {number}." for number in range(5))
    with tempfile.TemporaryDirectory() as root:
        store = TranscriptSessionStore(root)
        session = SessionMiddleware.profile("openclaw", store)
        async with session, MemoryMiddleware(root) as memory:
            agent = Agent(
                name="claw",
                system_prompt="You answer Ada.",
                model=model,
                state=AgentState(session_id=str(key)),
                context_config=ContextConfig.profile("openclaw", history={"channels": CHANNELS}),
                offloader=LocalWorkspace(workdir=root),
                middlewares=[session, memory, CompressionMiddleware()],
            )
            for number in range(5):
                await agent.reply(UserMsg("user", f"Question {number}?"))
            rows = [row async for row in store.list()]

    asked = [block.text for message in model.chats[-1].messages for block in message.content if block.type == "text"]
    print("the last request asks:", [text for text in asked if text.startswith("Question")])
    print("the index says:", rows[0].session_id, dict(rows[0].delivery))


if __name__ == "__main__":
    asyncio.run(main())
