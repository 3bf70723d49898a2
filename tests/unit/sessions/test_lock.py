"""One owner of a session at a time, across tasks, threads and processes."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import pytest_asyncio

from ctxkit import ConfigError, SessionLockedError, SessionLocks
from ctxkit.offload import fsname
from ctxkit.sessions import COMPRESSION_GRACE_S, PROCESS_LANES

REPOSITORY = Path(__file__).parents[3]
LOCKHOLDER = Path(__file__).with_name("lockholder.py")
LEASEHOLDER = REPOSITORY / "tests/unit/offload/leaseholder.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
LIMIT_S = 300.0
HOSTILE = ["", "../../etc/passwd", "/abs", "a\x00b", "\ud800", "x" * 100_000, "con", "A", "a", "é", "e\u0301"]

pytestmark = pytest.mark.asyncio
posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks")


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest_asyncio.fixture
async def locks(clock):
    async with SessionLocks(timeout_s=0.05, clock=clock) as locks:
        yield locks


@pytest.fixture(params=["file", "process"])
def path(request, tmp_path):
    """A session that other processes can reach, and one that they cannot."""
    return tmp_path / "deep/er/s.lock" if request.param == "file" else None


def holder_process(folder):
    process = subprocess.Popen(
        [sys.executable, str(LEASEHOLDER), str(folder), "s.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    return process, int(process.stdout.readline())


async def is_held(locks, path):
    try:
        async with locks.hold("s", owner=object(), path=path):
            return False
    except SessionLockedError:
        return True


@pytest.mark.row("O4")
async def test_a_second_owner_is_told_who_holds_the_session_and_a_later_one_has_a_higher_number(locks, path):
    async with locks.hold("s", owner="a", path=path, note="scribe") as first:
        with pytest.raises(SessionLockedError, match=rf"Session 's' is held by pid {os.getpid()} .*'scribe'") as told:
            await locks.take("s", owner="b", path=path)
        assert told.value.holder["epoch"] == first.epoch
        assert not first.is_lost
    async with locks.hold("s", owner="b", path=path) as second:
        assert second.epoch > first.epoch
    assert (first.is_lost, second.is_lost) == (True, True)


async def test_the_defaults_are_those_of_the_seed():
    locks = SessionLocks()
    assert (locks.timeout_s, locks.max_hold_s, locks.watchdog_s) == (10.0, 300.0, 60.0)
    assert COMPRESSION_GRACE_S == 120.0


@pytest.mark.parametrize("wrong", [{"timeout_s": -1}, {"max_hold_s": 0}, {"watchdog_s": 0}])
async def test_a_setting_that_cannot_work_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SessionLocks(**wrong)


async def test_the_same_owner_takes_it_again_and_it_is_free_at_the_outermost_exit(locks, path):
    owner = object()
    async with locks.hold("s", owner=owner, path=path) as outer:
        async with locks.hold("s", owner=owner, path=path) as inner:
            assert inner.epoch == outer.epoch
        assert (inner.is_lost, outer.is_lost) == (True, False)
        await inner.release()  # once is enough
        assert await is_held(locks, path)
    assert not await is_held(locks, path)


async def test_owners_are_told_apart_by_identity_not_by_equality(locks, path):
    async with locks.hold("s", owner=[1], path=path):
        with pytest.raises(SessionLockedError):
            await locks.take("s", owner=[1], path=path)


async def test_two_objects_of_one_process_exclude_each_other(locks, path):
    async with SessionLocks(timeout_s=0) as others, locks.hold("s", owner=1, path=path):
        assert await is_held(others, path)


async def test_sessions_do_not_wait_for_each_other(locks, tmp_path):
    async with (
        locks.hold("a", owner=1),
        locks.hold("b", owner=1),
        locks.hold("a", owner=1, path=tmp_path / "a"),
        locks.hold("b", owner=1, path=tmp_path / "b"),
    ):
        pass


async def test_an_error_inside_lets_go(locks, path):
    with pytest.raises(KeyError):
        async with locks.hold("s", owner=1, path=path):
            raise KeyError
    assert not await is_held(locks, path)


async def test_tasks_get_it_in_the_order_in_which_they_asked(clock, path):
    order = []
    async with SessionLocks(timeout_s=30, clock=clock) as locks:

        async def one(number):
            async with locks.hold("s", owner=object(), path=path):
                order.append(number)

        await asyncio.gather(*(one(number) for number in range(12)))
    assert order == list(range(12))


async def test_a_session_whose_id_is_hostile_is_one_of_its_own(locks, tmp_path):
    epochs = {}
    for session in HOSTILE:
        async with (
            locks.hold(session, owner=1, note=session),
            locks.hold(session, owner=1, path=tmp_path / f"{fsname(session)}.jsonl.lock", note=session) as hold,
        ):
            epochs[session] = hold.epoch
            with pytest.raises(SessionLockedError):
                await locks.take(session, owner=2)
    assert len(list(tmp_path.iterdir())) == len(HOSTILE) == len(epochs)


@pytest.mark.parametrize("turns", range(14))
async def test_whoever_is_cancelled_at_any_moment_leaves_nothing_locked_and_no_task(clock, path, turns):
    locks = SessionLocks(timeout_s=30, clock=clock)

    async def hold_and_leave():
        async with locks.hold("s", owner=object(), path=path):
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(hold_and_leave()) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks[:2])
    await tasks[2]
    assert not await is_held(locks, path)
    await locks.aclose()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert PROCESS_LANES._lanes == {}


@pytest.mark.may_block("waits for its threads")
async def test_threads_with_event_loops_of_their_own_take_turns(tmp_path, clock, path):
    locks, inside, most = SessionLocks(timeout_s=30, clock=clock), [], []

    async def work():
        for _ in range(10):
            async with locks.hold("s", owner=object(), path=path):
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(most), max(most)) == (40, 1)
    await locks.aclose()


async def test_an_owner_without_a_sign_of_life_loses_the_session_and_the_next_one_has_a_higher_number(
    locks, clock, path, caplog
):
    async with locks.hold("s", owner="hung", path=path, note="hung one") as hung:
        clock.now += LIMIT_S - 1
        await locks.check()
        assert not hung.is_lost
        clock.now += 1
        with caplog.at_level(logging.ERROR, "ctxkit"):
            await locks.check()
        assert hung.is_lost
        assert "'s' was held by pid" in caplog.text
        assert "'hung one'" in caplog.text
        async with locks.hold("s", owner="next", path=path) as following:
            assert following.epoch > hung.epoch
            await hung.release()
            assert await is_held(locks, path)


async def test_a_touch_starts_the_limit_anew(locks, clock, path):
    async with locks.hold("s", owner=1, path=path) as hold:
        for _ in range(5):
            clock.now += LIMIT_S - 1
            hold.touch()
            await locks.check()
        assert not hold.is_lost


async def test_a_long_compression_may_hold_it_for_its_timeout_and_two_minutes(locks, clock, path):
    async with locks.hold("s", owner=1, path=path) as hold:
        hold.extend(600 + COMPRESSION_GRACE_S)
        hold.touch()  # never shortens it
        clock.now += 719
        await locks.check()
        assert not hold.is_lost
        clock.now += 1
        await locks.check()
        assert hold.is_lost


async def test_the_watchdog_looks_by_itself_and_ends_with_the_last_hold(clock, path):
    async with SessionLocks(watchdog_s=0.001, clock=clock) as locks:
        hold = await locks.take("s", owner=1, path=path)
        (watchdog,) = (task for task in asyncio.all_tasks() if task.get_name() == "ctxkit-session-locks")
        clock.now += LIMIT_S
        await asyncio.wait([watchdog], timeout=30)
        assert (watchdog.done(), hold.is_lost) == (True, True)
        async with locks.hold("s", owner=2, path=path):  # has a watchdog of its own
            assert "ctxkit-session-locks" in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_watchdog_that_fails_looks_again(clock, caplog):
    failures, looked = [OSError("broken")], asyncio.Event()

    class Failing(SessionLocks):
        async def _check(self, process):
            if failures:
                raise failures.pop()
            looked.set()

    async with Failing(watchdog_s=0.001, clock=clock) as locks, locks.hold("s", owner=1):
        await asyncio.wait_for(looked.wait(), 30)
    assert "could not look" in caplog.text


async def test_a_lock_file_that_is_removed_under_its_owner_makes_it_lose_the_session(locks, tmp_path):
    path = tmp_path / "s.lock"
    async with locks.hold("s", owner=1, path=path) as hold:
        await asyncio.to_thread(path.unlink)
        await locks.check()
        assert hold.is_lost
        assert not await is_held(locks, path)


async def test_closing_lets_go_of_everything_and_the_owners_see_it(clock, path):
    locks = SessionLocks(timeout_s=0, clock=clock)
    first, second = await locks.take("s", owner=1, path=path), await locks.take("t", owner=1)
    await locks.aclose()
    assert (first.is_lost, second.is_lost) == (True, True)
    assert not await is_held(locks, path)
    await first.release()
    await locks.aclose()


@pytest.mark.may_block("talks to a process of its own")
async def test_a_session_that_another_process_holds_is_waited_for(tmp_path, clock):
    process, epoch = holder_process(tmp_path)
    async with SessionLocks(timeout_s=30, clock=clock) as locks:
        waiting = asyncio.create_task(locks.take("s", owner=1, path=tmp_path / "s.lock"))
        behind = asyncio.create_task(locks.take("s", owner=2, path=tmp_path / "s.lock"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        process.communicate("")
        hold = await waiting
        assert hold.epoch > epoch
        await hold.release()
        await (await behind).release()


@posix
@pytest.mark.crash
@pytest.mark.row("O4")
@pytest.mark.may_block("kills a process of its own")
async def test_after_the_death_of_its_owner_a_session_is_free_at_once(tmp_path, locks, caplog):
    process, epoch = holder_process(tmp_path)
    process.kill()
    process.communicate()
    async with locks.hold("s", owner=1, path=tmp_path / "s.lock") as hold:
        assert hold.epoch > epoch
    assert f"pid {process.pid}" in caplog.text
    assert "died" in caplog.text
    assert json.loads((tmp_path / "s.lock").read_text())["pid"] == os.getpid()


@posix
@pytest.mark.crash
@pytest.mark.may_block("stops a process of its own")
async def test_an_owner_that_is_stopped_is_named_to_those_who_wait(tmp_path, locks):
    process, _ = holder_process(tmp_path)
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(SessionLockedError, match=f"pid {process.pid} .*'the other process'"):
            await locks.take("s", owner=1, path=tmp_path / "s.lock")
    finally:
        process.kill()
        process.communicate()


@posix
@pytest.mark.row("O4")
@pytest.mark.may_block("waits for processes of its own")
async def test_of_eight_processes_with_two_owners_each_only_one_is_ever_inside(tmp_path):
    command = [sys.executable, str(LOCKHOLDER), str(tmp_path), "25"]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)  # noqa: ASYNC220 - nothing waits
        for _ in range(8)
    ]
    results = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    epochs = [int(line) for result in results for line in result.split()]
    assert len(set(epochs)) == 400


@posix
@pytest.mark.may_block("waits for its child")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_forked_child_does_not_hold_what_its_parent_holds(locks, path):
    hold = await locks.take("s", owner=1, path=path)
    child = os.fork()
    if child == 0:
        os._exit(0 if hold.is_lost else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 - the child ends at once
    assert not hold.is_lost
    assert await is_held(locks, path)
