"""Repair a saved session: what a crash has left behind would be refused by the provider."""

import asyncio
import json

from agentscope.agent import Agent
from agentscope.message import AssistantMsg, ToolCallBlock, UserMsg
from agentscope.state import AgentState
from agentscope.tool import Toolkit

from ctxkit import HostCodec
from ctxkit.sessions.repair import repair_state
from ctxkit.testing import ScriptedModel


async def main() -> None:
    """Go on with a session whose last tool never came back."""
    lost = ToolCallBlock(id="call_1", name="read_page", input='{"number": 7}', state="allowed")
    broken = AgentState(context=[UserMsg("user", "Read page 7."), AssistantMsg("reader", [lost])])
    saved = broken.model_dump(mode="json")

    repaired = repair_state(saved, HostCodec(), agent_name="reader")
    for repair in repaired.repairs:
        print(f"{repair.kind}: {repair.what}")
    # Nothing was dropped here; what is should be stored before the state is used.
    print(json.dumps(repaired.dropped))

    agent = Agent(
        name="reader",
        system_prompt="You read pages.",
        model=ScriptedModel(["I was interrupted. Shall I read it again?"], context_size=32_000),
        toolkit=Toolkit(),
        state=AgentState.model_validate(repaired.state),
    )
    answer = await agent.reply(UserMsg("user", "What does it say?"))
    print(answer.get_text_content())


if __name__ == "__main__":
    asyncio.run(main())
