"""R3: many writers of one session, processes, tasks and agents: nothing is lost, nothing is there twice or mixed up."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ctxkit.errors import StaleOwnerError, StoreFullError
from ctxkit.offload import FileLimits, FileStore, MemoryStore, Record, lines, read_records

from .appender import SESSION, record_of

PROGRAM = Path(__file__).with_name("appender.py")
ENVIRONMENT = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
PROCESSES = 8
TASKS = 256

pytestmark = [pytest.mark.crash, pytest.mark.row("X1")]


async def bodies_in(store: Any, session: str = SESSION) -> dict[str, str]:
    """Return the bodies by key: each key is there once, and the records are numbered from 1 without a gap."""
    entries = [entry async for entry in store.list(session)]
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    found = {entry.key or "": lines.bare(data).decode() async for entry, data in read_records(store, entries)}
    assert len(found) == len(entries)
    return found


@pytest.mark.skipif(os.name != "posix", reason="starts eight processes at once")
def test_processes_that_write_one_session_at_once_lose_nothing_and_mix_nothing_up(tmp_path, volume):
    each = volume(short=60, full=1000)
    names = [f"process {number}" for number in range(PROCESSES)]
    with ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, str(PROGRAM), str(tmp_path), name, str(each)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=ENVIRONMENT,
                )
            )
            for name in names
        ]
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"
        for one in processes:
            assert one.stdin is not None
            one.stdin.write(b"\n")
            one.stdin.flush()
        for one in processes:
            told, _ = one.communicate(timeout=1200)
            assert one.returncode == 0
            assert sorted(map(int, told.split())) == list(range(each))

    found = asyncio.run(bodies_in(FileStore(tmp_path)))
    for name in names:
        assert {key: body for key, body in found.items() if key.startswith(name)} == {
            f"{name}-{number}": record_of(name, number).body for number in range(each)
        }
    assert len(found) == PROCESSES * each
    folder = tmp_path / "sessions" / SESSION
    files = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    segments = ["context.jsonl", "context-0002.jsonl", "context-0003.jsonl"][: len(files)]
    assert files == sorted(segments)
    told = []
    for segment in segments:
        with (folder / segment).open("rb") as log:
            told += [json.loads(line)["id"] for line in log]
    assert told == list(found)


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


@pytest.mark.asyncio
async def test_tasks_that_write_one_session_at_once_lose_nothing_and_keep_their_own_order(store, volume):
    each = volume(short=20, full=1000)

    async def write(name: str) -> None:
        for number in range(each):
            one = record_of(name, number, 20)
            await store.append(SESSION, [one, one] if number % 3 == 0 else [one])

    names = [f"task {number}" for number in range(TASKS)]
    async with asyncio.timeout(1200), asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(write(name))

    found = await bodies_in(store)
    assert len(found) == TASKS * each
    by_name: dict[str, list[int]] = {name: [] for name in names}
    for key in found:
        name, _, number = key.rpartition("-")
        by_name[name].append(int(number))
        assert found[key] == record_of(name, int(number), 20).body
    assert by_name == {name: list(range(each)) for name in names}
    if isinstance(store, FileStore):
        await store.aclose()


@pytest.mark.asyncio
async def test_each_of_many_callers_gets_its_own_answer_however_they_are_grouped(tmp_path, volume):
    """Calls that are written as one group have other fates: stored, sent by a former owner, too much for the limit."""
    store = FileStore(tmp_path, limits=FileLimits(record_bytes=None, session_bytes=2_000_000))
    await store.fence(SESSION, 1_000_000)

    async def write(task: int, number: int) -> None:
        one = record_of(f"task {task}", number, 20)
        match (task + number) % 3:
            case 0:
                assert await store.append(SESSION, [one]) == store.reference(SESSION)
            case 1:
                epoch = 1 + task * 1000 + number
                with pytest.raises(StaleOwnerError, match=rf"this one has {epoch}:"):
                    await store.append(SESSION, [one], epoch=epoch)
            case 2:
                much = Record(key=one.key, body=json.dumps({"id": one.key, "text": "x" * (2_000_000 + task)}))
                size = len(much.body) + len(much.key)
                with pytest.raises(StoreFullError, match=rf"^{size:,} bytes more"):
                    await store.append(SESSION, [much])

    async def work(task: int) -> None:
        for number in range(volume(short=2, full=20)):
            await write(task, number)

    async with asyncio.timeout(600):
        await asyncio.gather(*(work(task) for task in range(48)))
    expected = {
        f"task {task}-{number}"
        for task in range(48)
        for number in range(volume(short=2, full=20))
        if (task + number) % 3 == 0
    }
    assert set(await bodies_in(store)) == expected
    await store.aclose()
