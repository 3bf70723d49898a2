"""One agent in several event loops, one after the other, as scripts and notebooks have them."""

import asyncio

from ctxkit.testing import ScriptedModel
from tests.host.agents import history, make_agent, memory_offloader, user


def test_an_agent_may_live_through_several_event_loops():
    agent = make_agent(ScriptedModel([], context_size=6_000), offloader=memory_offloader())

    async def twice_at_once() -> list[object]:
        agent.state.context.extend(history(12, size=400))
        agent.state.context.append(user("Go on."))
        return await asyncio.gather(agent.compress_context(), agent.compress_context(), return_exceptions=True)

    assert [asyncio.run(twice_at_once()) for _ in range(2)] == [[None, None], [None, None]]
