"""Lanes: one at a time, first come, first served, in tasks and in threads."""

import asyncio
import os
import threading

import pytest

from ctxkit.sessions import GLOBAL, Lanes, session_lane

pytestmark = pytest.mark.asyncio


async def everybody_waits():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_those_who_wait_are_served_in_the_order_in_which_they_came():
    lanes, order = Lanes(), []

    async def one(number):
        async with lanes.enter(GLOBAL):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(one(number) for number in range(20)))
    assert order == list(range(20))


async def test_two_lanes_do_not_wait_for_each_other():
    lanes = Lanes()
    async with lanes.enter(session_lane("a")), lanes.enter(session_lane("b")):
        assert lanes.is_busy("session:a")
        assert lanes.is_busy("session:b")


async def test_how_many_wait_is_told_and_nothing_is_left_of_a_lane_that_nobody_is_on():
    lanes = Lanes()
    turn = await lanes.take(GLOBAL)
    waiters = [asyncio.create_task(lanes.take(GLOBAL)) for _ in range(3)]
    await everybody_waits()
    assert lanes.waiting(GLOBAL) == 3
    turn.leave()
    for waiter in waiters:
        (await waiter).leave()
    assert (lanes.waiting(GLOBAL), lanes.is_busy(GLOBAL), lanes._lanes) == (0, False, {})


async def test_an_error_leaves_to_its_own_caller_and_lets_the_next_one_on():
    lanes, started, go = Lanes(), asyncio.Event(), asyncio.Event()

    async def fail():
        async with lanes.enter(GLOBAL):
            started.set()
            await go.wait()
            raise OSError("broken")

    first = asyncio.create_task(fail())
    await started.wait()
    second = asyncio.create_task(lanes.take(GLOBAL))
    await everybody_waits()
    go.set()
    (await second).leave()
    with pytest.raises(OSError, match="broken"):
        await first


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_is_cancelled_at_any_moment_leaves_the_queue_to_the_others(turns):
    lanes = Lanes()
    first = await lanes.take(GLOBAL)

    async def enter():
        async with lanes.enter(GLOBAL):
            await asyncio.sleep(0)

    second, third = asyncio.create_task(enter()), asyncio.create_task(enter())
    await everybody_waits()
    first.leave()
    for _ in range(turns):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    await third
    assert not lanes.is_busy(GLOBAL)


async def test_leaving_twice_sends_nobody_else_away():
    lanes = Lanes()
    first = await lanes.take(GLOBAL)
    first.leave()
    second = await lanes.take(GLOBAL)
    first.leave()
    assert lanes.is_busy(GLOBAL)
    second.leave()
    assert not lanes.is_busy(GLOBAL)


@pytest.mark.may_block("waits for its threads")
async def test_event_loops_in_several_threads_never_work_at_the_same_time():
    lanes, inside, most = Lanes(), [], []

    async def work():
        for _ in range(50):
            async with lanes.enter(GLOBAL):
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(most), max(most)) == (200, 1)


@pytest.mark.may_block("runs another event loop in a thread")
async def test_an_event_loop_that_was_closed_under_its_turn_does_not_keep_the_lane():
    lanes = Lanes()

    def leave_it():
        loop = asyncio.new_event_loop()
        loop.run_until_complete(lanes.take(GLOBAL))
        loop.close()

    thread = threading.Thread(target=leave_it)
    thread.start()
    thread.join()
    assert lanes._lanes
    assert not lanes.is_busy(GLOBAL)
    (await asyncio.wait_for(lanes.take(GLOBAL), 5)).leave()
    assert not lanes.is_busy(GLOBAL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.may_block("waits for its child")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_forked_child_finds_the_lanes_empty():
    lanes = Lanes()
    turn = await lanes.take(GLOBAL)
    child = os.fork()
    if child == 0:
        turn.leave()  # its parent's, so this does nothing
        os._exit(int(lanes.is_busy(GLOBAL)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 - the child ends at once
    assert lanes.is_busy(GLOBAL)
    turn.leave()
