"""Many processes on one session, and processes that are killed: what was acknowledged is there, once, in order."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctxkit.offload import FileStore

from .writer import blob, record

WRITER = Path(__file__).with_name("writer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(WRITER.parents[3]), *sys.path])}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes by signal")


def start(root: Path, name: str, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(WRITER), str(root), "s", name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)


def stored(root: Path) -> list[str]:
    lines = (root / "sessions/s/context.jsonl").read_bytes().splitlines()
    records = [json.loads(line) for line in lines]
    assert [one["_ctxkit"]["n"] for one in records] == list(range(1, len(records) + 1))
    return [one["id"] for one in records]


def test_eight_processes_on_one_session_lose_and_repeat_nothing(tmp_path):
    writers = [start(tmp_path, f"w{number}", 100) for number in range(8)]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert len(out.splitlines()) == 120
    found = stored(tmp_path)
    assert sorted(found) == sorted(f"w{number}-{at}" for number in range(8) for at in range(100))
    for number in range(8):
        assert [one for one in found if one.startswith(f"w{number}-")] == [f"w{number}-{at}" for at in range(100)]


@pytest.mark.crash
def test_what_a_killed_writer_was_told_is_stored_is_there_whole_and_once(tmp_path):
    chance = random.Random(1)
    for turn in range(20):
        writer = start(tmp_path, f"r{turn}", 10_000)
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline()]
        time.sleep(chance.uniform(0.0, 0.05))
        writer.kill()
        acknowledged += writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        writer.stdout.close()
        said = [line.strip().decode() for line in acknowledged if line.endswith(b"\n")]
        # The one who was not told asks again, as after any failure.
        asked_again = [record(f"r{turn}", number) for number in range(len(said) + 2)]
        asyncio.run(FileStore(tmp_path).append("s", asked_again))
        found = stored(tmp_path)
        assert len(found) == len(set(found))
        assert {f"r{turn}-{number}" for number in said if not number.startswith("F")} <= set(found)
        for number in (int(one[1:]) for one in said if one.startswith("F")):
            file = tmp_path / "sessions/s" / f"tool_result-r{turn}-{number}.txt"
            assert file.read_bytes() == blob(f"r{turn}", number)
        for file in (tmp_path / "sessions/s").glob("tool_result-*"):
            _, name, number = file.stem.split("-")
            assert file.read_bytes() == blob(name, int(number))
