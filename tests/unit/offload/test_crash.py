"""Many processes on one session, and processes that are killed: what was acknowledged is there, once, in order."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ctxkit.offload import FileStore, lines
from ctxkit.offload.files.log_index import segments_of

from .writer import LIMITS, blob, record

WRITER = Path(__file__).with_name("writer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(WRITER.parents[3]), *sys.path])}
FULL = bool(os.environ.get("CTXKIT_CRASH_FULL"))

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes by signal")


def start(root: Path, name: str, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(WRITER), str(root), "s", name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)


def stored(root: Path) -> list[str]:
    """Return the ids of all records as they stand in the files; their numbers have no gap."""
    folder = root / "sessions/s"
    found = []
    for name in segments_of(path.name for path in folder.iterdir()):
        for line in (folder / name).read_bytes().splitlines():
            record = json.loads(line)
            seal = record["_ctxkit"]
            assert seal["n"] == len(found) + 1
            assert lines.examine(line) is not None
            if "_ctxkit_spill" in record:
                data = (folder / record["_ctxkit_spill"]).read_bytes()
                assert len(data) == seal["b"]
                record = json.loads(data)
            found.append(record["id"])
    return found


def test_eight_processes_on_one_session_lose_and_repeat_nothing(tmp_path):
    writers = [start(tmp_path, f"w{number}", 100) for number in range(8)]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert len(out.splitlines()) == 110
    found = stored(tmp_path)
    assert sorted(found) == sorted(f"w{number}-{at}" for number in range(8) for at in range(100))
    for number in range(8):
        own = [int(one.partition("-")[2]) // 4 for one in found if one.startswith(f"w{number}-")]
        assert own == sorted(own), "what was sent after an answer stands behind it"


@pytest.mark.crash
@pytest.mark.parametrize(("writers", "rounds"), [(1, 700 if FULL else 15), (4, 300 if FULL else 8)])
def test_what_a_killed_writer_was_told_is_stored_is_there_whole_and_once(tmp_path, writers, rounds):
    chance = random.Random(1)
    seen: Counter[str] = Counter()
    for turn in range(rounds):
        root = tmp_path / str(turn // 20)
        names = [f"r{turn}-{number}" for number in range(writers)]
        running = [start(root, name, 10_000) for name in names]
        said = [[writer.stdout.readline()] for writer in running if writer.stdout is not None]
        time.sleep(chance.uniform(0.0, 0.08))
        for writer in running:
            writer.kill()
        for writer, told in zip(running, said, strict=True):
            assert writer.stdout is not None
            told.extend(writer.stdout.read().splitlines(keepends=True))
            writer.wait()
            writer.stdout.close()
        acknowledged = [[line.strip().decode() for line in told if line.endswith(b"\n")] for told in said]
        # Those who were not told ask again, as after any failure.
        again = [
            record(name, number)
            for name, told in zip(names, acknowledged, strict=True)
            for number in range(len(told) + 5)
        ]
        asyncio.run(append_and_close(root, again))
        check(root, names, acknowledged, seen)
    if FULL:
        assert seen["acknowledged"] >= 10_000
        assert list(tmp_path.rglob("context*.torn-*")), (
            "a writer was killed in the midst of a write, or this shows little"
        )


async def append_and_close(root, records):
    store = FileStore(root, limits=LIMITS)
    await store.append("s", records)
    await store.aclose()


def check(root: Path, names: list[str], acknowledged: list[list[str]], seen: "Counter[str]") -> None:
    found = stored(root)
    assert len(found) == len(set(found))
    folder = root / "sessions/s"
    for name, told in zip(names, acknowledged, strict=True):
        seen["acknowledged"] += len(told)
        assert {f"{name}-{number}" for number in told if not number.startswith("F")} <= set(found)
        for number in (int(one[1:]) for one in told if one.startswith("F")):
            assert (folder / f"tool_result-{name}-{number}.txt").read_bytes() == blob(name, number)
    for file in folder.glob("tool_result-*"):
        name, _, number = file.stem.removeprefix("tool_result-").rpartition("-")
        assert file.read_bytes() == blob(name, int(number))
