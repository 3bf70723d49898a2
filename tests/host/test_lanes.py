"""Compressions wait for each other where the settings say so, through real agents."""

import asyncio
import threading

import pytest

from ctxkit import SummaryConfig
from ctxkit.sessions import GLOBAL, PROCESS_LANES
from tests.host.agents import applied
from tests.host.summaries import GOOD, QUICK, an_agent, lowered


class Summarising:
    """Answers summary requests, and notes how many it answers at once."""

    def __init__(self):
        self.inside = 0
        self.most = 0
        self.begun = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def __call__(self, messages):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.begun.release()
        await self.go_on.wait()
        self.inside -= 1
        return GOOD


def agents(number, summaries, *, lane):
    config = lowered(summary=SummaryConfig(lane=lane, **QUICK))
    return [an_agent(summaries, config=config)[0] for _ in range(number)]


@pytest.mark.asyncio
@pytest.mark.row("O12")
async def test_agents_on_the_global_lane_never_compress_at_the_same_time():
    summaries = Summarising()
    three = agents(3, summaries, lane="global")
    tasks = [asyncio.create_task(agent.compress_context()) for agent in three]
    await summaries.begun.acquire()
    while PROCESS_LANES.waiting(GLOBAL) < 2:  # noqa: ASYNC110 - a lane is no event
        await asyncio.sleep(0)
    assert summaries.inside == 1
    summaries.go_on.set()
    await asyncio.gather(*tasks)
    assert summaries.most == 1
    assert [len(applied(agent)) for agent in three] == [1, 1, 1]
    assert not PROCESS_LANES.is_busy(GLOBAL)


@pytest.mark.asyncio
async def test_agents_of_different_sessions_compress_at_the_same_time_otherwise():
    summaries = Summarising()
    tasks = [asyncio.create_task(agent.compress_context()) for agent in agents(2, summaries, lane="session")]
    await summaries.begun.acquire()
    await summaries.begun.acquire()
    summaries.go_on.set()
    await asyncio.gather(*tasks)
    assert summaries.most == 2


@pytest.mark.asyncio
@pytest.mark.row("O12")
async def test_two_agents_on_one_session_never_compress_at_the_same_time():
    summaries = Summarising()
    summaries.go_on.set()
    two = agents(2, summaries, lane="session")
    two[1].state.session_id = two[0].state.session_id
    await asyncio.gather(*(agent.compress_context() for agent in two))
    assert summaries.most == 1


@pytest.mark.asyncio
async def test_an_agent_that_is_cancelled_while_it_waits_leaves_the_lane_to_the_others():
    summaries = Summarising()
    first, second, third = agents(3, summaries, lane="global")
    running = asyncio.create_task(first.compress_context())
    await summaries.begun.acquire()
    waiting = [asyncio.create_task(agent.compress_context()) for agent in (second, third)]
    while PROCESS_LANES.waiting(GLOBAL) < 2:  # noqa: ASYNC110 - a lane is no event
        await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    summaries.go_on.set()
    await asyncio.gather(running, waiting[1])
    assert [len(applied(agent)) for agent in (first, second, third)] == [1, 0, 1]


def test_agents_in_event_loops_of_several_threads_share_the_global_lane():
    inside, most = [], []

    async def answer(messages):
        inside.append(1)
        most.append(len(inside))
        for _ in range(20):
            await asyncio.sleep(0)
        inside.pop()
        return GOOD

    async def compress():
        (agent,) = agents(1, answer, lane="global")
        await agent.compress_context()

    threads = [threading.Thread(target=asyncio.run, args=(compress(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1, 1, 1]
