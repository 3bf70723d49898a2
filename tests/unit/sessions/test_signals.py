"""Locks that are let go on signals, for those who ask for it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ctxkit.sessions.signals import SignalRelease

REPOSITORY = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
FOUR = ["SIGINT", "SIGTERM", "SIGQUIT", "SIGABRT"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

PROGRAM = """
import asyncio, json, os, pathlib, signal, sys, time
from ctxkit import SessionLocks

folder, name, opted_in = sys.argv[1], sys.argv[2], sys.argv[3] == "yes"
path = pathlib.Path(folder, "s.lock")

def before(number, frame):  # what a server does: it goes on for a while
    print("released" if "releasedAt" in json.loads(path.read_text()) else "held", hold.is_lost, flush=True)

# What runs in the background of a shell ignores interrupts, and so would this process.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

if sys.argv[4] == "chained":
    signal.signal(getattr(signal, name), before)

async def main():
    global hold
    locks = SessionLocks(release_on_signals=opted_in)
    hold = await locks.take("s", owner=1, path=path)
    signal.raise_signal(getattr(signal, name))
    await locks.aclose()
    print("ended", signal.getsignal(getattr(signal, name)) is before, flush=True)

asyncio.run(main())
"""


def run(folder, name, opted_in, before):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), name, opted_in, before],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )


@pytest.fixture
def before():
    """Handlers that note who was called, in place of pytest's."""
    called, was = [], {name: signal.getsignal(getattr(signal, name)) for name in FOUR}
    for name in FOUR:
        signal.signal(getattr(signal, name), lambda number, frame: called.append(signal.Signals(number).name))
    yield called
    for name, handler in was.items():
        signal.signal(getattr(signal, name), handler)


@pytest.mark.parametrize("name", FOUR)
def test_the_lock_is_let_go_before_the_handler_that_was_there_and_that_one_is_put_back(tmp_path, name):
    done = run(tmp_path, name, "yes", "chained")
    assert done.stdout.splitlines() == ["released True", "ended True"]


def test_nobody_who_did_not_ask_for_it_has_handlers_set(tmp_path):
    done = run(tmp_path, "SIGTERM", "no", "chained")
    assert done.stdout.splitlines() == ["held False", "ended True"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGQUIT", "SIGABRT"])
def test_a_process_without_a_handler_of_its_own_ends_by_the_signal(tmp_path, name):
    assert run(tmp_path, name, "yes", "alone").returncode == -getattr(signal, name)


def test_the_event_loops_own_handler_of_an_interrupt_still_ends_the_program(tmp_path):
    done = run(tmp_path, "SIGINT", "yes", "alone")
    assert "KeyboardInterrupt" in done.stderr


def test_each_of_the_four_signals_releases_once_and_reaches_the_one_before(before):
    released = []
    signals = SignalRelease(lambda: released.append(len(before)))
    signals.install()
    signals.install()
    for name in FOUR:
        signal.raise_signal(getattr(signal, name))
    signals.restore()
    signal.raise_signal(signal.SIGTERM)
    assert (released, before) == ([0, 1, 2, 3], [*FOUR, "SIGTERM"])


def test_a_signal_that_is_ignored_stays_ignored(before):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signals = SignalRelease(lambda: before.append("released"))
    signals.install()
    signal.raise_signal(signal.SIGTERM)
    signals.restore()
    assert (before, signal.getsignal(signal.SIGTERM)) == ([], signal.SIG_IGN)


def test_a_handler_that_was_set_on_top_stays_and_still_reaches_the_one_before(before):
    signals = SignalRelease(lambda: before.append("released"))
    signals.install()
    ours = signal.getsignal(signal.SIGTERM)

    def on_top(number, frame):
        before.append("on top")
        ours(number, frame)

    signal.signal(signal.SIGTERM, on_top)
    signals.restore()
    signal.raise_signal(signal.SIGTERM)
    assert before == ["on top", "SIGTERM"]


def test_a_release_that_fails_still_reaches_the_one_before(before):
    def fail():
        raise OSError("broken")

    signals = SignalRelease(fail)
    signals.install()
    with pytest.raises(OSError, match="broken"):
        signal.raise_signal(signal.SIGTERM)
    signals.restore()
    assert before == ["SIGTERM"]


def test_outside_the_main_thread_nothing_is_set(before):
    was = signal.getsignal(signal.SIGTERM)
    signals = SignalRelease(lambda: None)
    thread = threading.Thread(target=signals.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is was
