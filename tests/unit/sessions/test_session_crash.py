"""Processes that are killed while they save, and processes that save one session at once."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .saver import one_message, open_store, state_at

SAVER = Path(__file__).with_name("saver.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SAVER.parents[3]), *sys.path])}
ROUNDS = 100 if os.environ.get("CTXKIT_CRASH_FULL") else 6

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="kills processes by signal"),
    pytest.mark.parametrize("kind", ["sqlite", "transcript"]),
]


def start(
    kind: str, path: Path, session: str, *, first: int, count: int, epoch: int | str = ""
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(SAVER), kind, str(path), session, str(first), str(count), str(epoch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)


async def load(kind: str, path: Path, session: str):
    store = open_store(kind, str(path))
    try:
        found = await store.load(session)
        return found, [row.session_id async for row in store.list()]
    finally:
        await store.aclose()


@pytest.mark.crash
@pytest.mark.row("X1")
def test_what_a_killed_process_was_told_is_saved_is_there_and_never_half_a_state(tmp_path, kind):
    path, chance, last = tmp_path / "place", random.Random(1), -1
    for _ in range(ROUNDS):
        saver = start(kind, path, "s", first=last + 1, count=10_000)
        assert saver.stdout is not None
        said = [saver.stdout.readline()]
        time.sleep(chance.uniform(0.0, 0.06))
        saver.kill()
        said += saver.stdout.read().splitlines(keepends=True)
        saver.wait()
        saver.stdout.close()
        told = max(int(line) for line in said if line.endswith(b"\n"))
        found, listed = asyncio.run(load(kind, path, "s"))
        saved = int(found.state["summary"].removeprefix("up to "))
        # The one that it was killed over may be there, wholly, or not.
        assert saved in {told, told + 1}
        assert found.state == state_at(saved)
        assert found.repairs == ()
        assert listed == ["s"]
        last = saved
    if kind == "transcript":
        saver = start(kind, path, "s", first=last + 1, count=1)
        saver.communicate(timeout=60)
        (transcript,) = path.rglob("s.jsonl")
        messages = [json.loads(line) for line in transcript.read_bytes().splitlines()[1:]]
        assert messages == [one_message(number) for number in range(last + 2)]


def test_of_two_processes_with_epochs_the_older_one_is_refused_and_the_newer_ones_state_stays(tmp_path, kind):
    path = tmp_path / "place"
    old = start(kind, path, "s", first=0, count=1_000_000, epoch=1)
    assert old.stdout is not None
    assert old.stdout.readline() == b"0\n"
    new = start(kind, path, "s", first=5000, count=5, epoch=2)
    out, _ = new.communicate(timeout=60)
    assert out.split() == [b"5000", b"5001", b"5002", b"5003", b"5004"]
    out, _ = old.communicate(timeout=60)
    assert out.split()[-1] == b"lost"
    found, _ = asyncio.run(load(kind, path, "s"))
    assert found.state == state_at(5004)


def test_processes_that_save_sessions_of_their_own_side_by_side_all_succeed(tmp_path, kind):
    path = tmp_path / "place"
    savers = [start(kind, path, f"s{number}", first=0, count=15) for number in range(3)]
    for saver in savers:
        out, _ = saver.communicate(timeout=120)
        assert len(out.split()) == 15
    for number in range(3):
        found, listed = asyncio.run(load(kind, path, f"s{number}"))
        assert found.state == state_at(14)
        assert sorted(listed) == ["s0", "s1", "s2"]
