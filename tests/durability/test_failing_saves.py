"""R4: saving a session while the disk fails: what was saved last is there, or what was being saved, and never neither."""

import asyncio
import gc
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctxkit.errors import StoreError
from ctxkit.sessions import SessionStore, SqliteSessionStore, TranscriptSessionStore
from ctxkit.sessions.sqlite import file as sqlite_file

from .faulty_calls import FAILURES, FAULTS, FaultyCalls, open_descriptors
from .power import Power

SESSION = "s"
SAVES = 4

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("C8"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lets the system calls of Linux fail"),
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    there = Path("/dev/shm")
    with TemporaryDirectory(dir=there if there.is_dir() else tmp_path) as root:
        yield Path(root)


def state_of(number: int) -> dict[str, Any]:
    """Return a state that has one message more than the one before."""
    context = [
        {"id": f"m{at}", "role": "assistant", "content": [{"type": "text", "id": f"t{at}", "text": f"{at};" * 300}]}
        for at in range(number)
    ]
    return {"session_id": SESSION, "summary": f"{number} messages", "context": context}


async def save_all(store: SessionStore, sure: Any) -> tuple[int, int]:
    """Save one state after the other; return the last one that was acknowledged, and the last one that was tried."""
    last = 0
    for number in range(1, SAVES):
        try:
            await store.save(SESSION, state_of(number), epoch=number)
        except StoreError:
            continue
        last = number
        sure()
    return last, SAVES - 1


async def look(stores: list[SessionStore], last: int, tried: int) -> None:
    """Load with each store: what was acknowledged last, or something later that was being saved when it failed."""
    for store in stores:
        found = await store.load(SESSION)
        number = 0 if found is None else len(found.state["context"])
        assert last <= number <= tried
        if found is not None and last:
            assert found.state == state_of(number)
        elif found is not None:  # no save has ended well: what the transcript has is better than nothing
            assert found.state["context"] == state_of(number)["context"]
    for number, store in enumerate(stores, 8):
        await store.save(SESSION, state_of(number), epoch=number)
        loaded = [await other.load(SESSION) for other in stores]
        assert [found.state if found else None for found in loaded] == [state_of(number)] * len(stores)
        await store.aclose()
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("failure", FAILURES)
def test_whichever_call_fails_a_transcript_keeps_what_was_saved_last(memory, monkeypatch, volume, figures, failure):
    fault, for_ever = failure
    power = Power()
    calls = FaultyCalls(monkeypatch, watch=power)
    stride = volume(short=17, full=1)
    gc.collect()  # what other tests have left open is closed now, not amid the faults
    before = open_descriptors()

    async def run(root: Path) -> None:
        def sure() -> None:
            files = [file for file in root.rglob("s*.json*") if file.name in {"s.jsonl", "s.state.json"}]
            assert len(files) == 2
            assert power.would_take(*files) == []

        store = TranscriptSessionStore(root)
        try:
            async with asyncio.timeout(60):
                last, tried = await save_all(store, sure)
                calls.stop()
                await look([store, TranscriptSessionStore(root)], last, tried)
        finally:
            calls.stop()
            await store.aclose()

    for number in count(Random(f"saves {fault} {for_ever}").randint(1, stride), stride):
        calls.fail(number, FAULTS[fault], for_ever=for_ever)
        asyncio.run(run(memory / f"{number}"))
        assert open_descriptors() == before, f"call {number} failed: {calls.failed[:1]}"
        if not calls.failed:
            break
    figures(f"transcripts whose n-th system call fails, {fault}, for ever: {for_ever}: up to call {number}")


class FaultyConnection(sqlite3.Connection):
    """A connection whose n-th statement fails, once or from then on."""

    left = 0
    for_ever = False
    has_failed = False

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Fail, or execute."""
        FaultyConnection.left -= 1
        if FaultyConnection.left == 0 or (FaultyConnection.for_ever and FaultyConnection.left < 0):
            FaultyConnection.has_failed = True
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(*args)


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
def test_whichever_statement_fails_a_database_keeps_what_was_saved_last(memory, monkeypatch, for_ever):
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite_file.sqlite3, "connect", lambda *args, **named: connect(*args, **named, factory=FaultyConnection)
    )
    gc.collect()  # what other tests have left open is closed now, not amid the faults
    before = open_descriptors()

    async def run(root: Path) -> None:
        path = root / "sessions.db"
        store = SqliteSessionStore(path, busy_timeout_s=0.05)
        async with asyncio.timeout(60):
            last, tried = await save_all(store, lambda: None)
            FaultyConnection.for_ever, FaultyConnection.left = False, 0
            await look([store, SqliteSessionStore(path)], last, tried)

    for number in count(1):
        FaultyConnection.left, FaultyConnection.for_ever, FaultyConnection.has_failed = number, for_ever, False
        asyncio.run(run(memory / f"{number}"))
        assert open_descriptors() == before
        if not FaultyConnection.has_failed:
            break
    assert number > SAVES
