"""A warm process that forks writers, kills them with SIGKILL, and says what they had been told was stored.

Usage: `python killed.py`. Each line on standard input is one round, a `Round` as JSON; the answer is one line of JSON: for
each writer what it was told, in order. What the writers store is made from their names, so that anyone can tell what
should be there.

    E7   the session is fenced at epoch 7
    A12  record 12 is appended
    B15  blob 15 is put
    S3   state 3 is saved in SQLite; T3: in the transcript
"""

import asyncio
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ctxkit.offload import FileLimits, FileStore, Record
from ctxkit.sessions import SessionStore, SqliteSessionStore, TranscriptSessionStore

SESSION = "s"
TASKS = 4
"""Appends that a writer has under way at once; the next ones start when all of them are done."""
BLOB_EVERY = 5
LONGEST_START_S = 10.0
CUT = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
"""FS_IOC_SHUTDOWN of <linux/fs.h>; ext4 and xfs have it under the same number."""
NO_LOG_FLUSH = 2
"""What is not on the disk yet is lost, the journal in memory included: a power cut."""

SIZES = ((0.60, 1, 2_000), (0.30, 2_000, 60_000), (0.094, 60_000, 1_000_000), (0.006, 1_000_000, 8_000_000))
"""How many records have texts from how many to how many bytes."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One life of some writers."""

    root: str
    """Directory of the store."""
    names: Sequence[str]
    """Of the writers; no two lives have the same."""
    epoch: int
    """At which each of them fences the session."""
    live_s: float
    """Seconds until the kill."""
    is_at_work: bool = False
    """Whether they count from when something is stored; otherwise from the fork, so that many die as they begin."""
    record_bytes: int | None = None
    segment_bytes: int | None = None
    fsync: str = "always"
    has_sessions: bool = False
    """Whether states of sessions are saved beside the log."""
    cut: str | None = None
    """Mount point of the file system whose power is cut before the kill."""


def body_of(name: str, number: int) -> str:
    """Return the body of a writer's record."""
    chance = Random(f"{name}-{number}")
    least, most = chance.choices([between for _, *between in SIZES], [share for share, *_ in SIZES])[0]
    size = chance.randint(least, most)
    unit = f"{name}-{number};"
    return f'{{"id":"{name}-{number}","text":"{(unit * (size // len(unit) + 1))[:size]}"}}'


def record_of(name: str, number: int) -> Record:
    """Return a writer's record."""
    return Record(key=f"{name}-{number}", body=body_of(name, number))


def blob_of(name: str, number: int) -> bytes:
    """Return the content of a writer's blob."""
    return f"{name}-{number};".encode() * Random(f"blob {name}-{number}").randint(1, 9_000)


def blob_name(name: str, number: int) -> str:
    """Return the name of a writer's blob."""
    return f"tool_result-{name}-{number}.txt"


def state_of(name: str, number: int) -> dict[str, object]:
    """Return a state that a writer saves: three messages, one of them new each time."""
    context = [
        {"id": f"{name}-m{at}", "role": "assistant", "content": [{"type": "text", "text": "x" * (at * 7919 % 5000)}]}
        for at in range(number, number + 3)
    ]
    return {"session_id": name, "summary": f"up to {number}", "context": context}


def session_stores(root: str | Path) -> dict[str, SessionStore]:
    """Return the stores of sessions that stand beside a log, by the letter with which they are told of."""
    return {"S": SqliteSessionStore(Path(root, "sessions.db")), "T": TranscriptSessionStore(Path(root, "transcripts"))}


def limits_of(one: Round) -> FileLimits:
    """Return the limits that a round's store keeps to."""
    return FileLimits(record_bytes=one.record_bytes, segment_bytes=one.segment_bytes)


async def _write(one: Round, name: str, say: Callable[[str], None]) -> None:
    """Store until killed, and say of each thing that it is stored when the store has said so."""
    store = await FileStore(one.root, limits=limits_of(one), fsync=one.fsync).fence(SESSION, one.epoch)
    say(f"E{one.epoch}")

    async def store_one(number: int) -> None:
        await store.append(SESSION, [record_of(name, number)])
        say(f"A{number}")
        if number % BLOB_EVERY == 0:
            content = blob_of(name, number)
            if number % (2 * BLOB_EVERY):
                await store.put_chunks(SESSION, blob_name(name, number), _in_chunks(content))
            else:
                await store.put(SESSION, blob_name(name, number), content)
            say(f"B{number}")

    async def store_all() -> None:
        number = 0
        while True:
            await asyncio.gather(*(store_one(number + at) for at in range(TASKS)))
            number += TASKS

    async def save_all(letter: str, sessions: SessionStore) -> None:
        number = 0
        while True:
            await sessions.save(name, state_of(name, number), epoch=one.epoch)
            say(f"{letter}{number}")
            number += 1

    savers = session_stores(one.root).items() if one.has_sessions else ()
    await asyncio.gather(store_all(), *(save_all(letter, sessions) for letter, sessions in savers))


async def _in_chunks(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), 10_000):
        yield content[at : at + 10_000]


def _fork(one: Round, name: str) -> tuple[int, int]:
    """Start a writer and return its process and the pipe on which it says what it was told."""
    listen, speak = os.pipe()
    pid = os.fork()
    if pid:
        os.close(speak)
        return pid, listen
    try:
        os.close(listen)
        asyncio.run(_write(one, name, lambda word: os.write(speak, f"{word}\n".encode())))
    except BaseException as exc:  # noqa: BLE001 - told to the parent, which alone can say whether it was to be expected
        os.write(speak, f"!{exc!r}"[:2000].replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(1)


def _live_and_die(one: Round) -> Sequence[Sequence[str]]:
    """Let writers work for a while, kill them, and return what each was told."""
    writers = [_fork(one, name) for name in one.names]
    if one.is_at_work:
        select.select([listen for _, listen in writers], [], [], LONGEST_START_S)
    time.sleep(one.live_s)
    if one.cut is not None:
        import fcntl

        for pid, _ in writers:
            os.kill(pid, signal.SIGSTOP)
        mount = os.open(one.cut, os.O_RDONLY)
        fcntl.ioctl(mount, CUT, struct.pack("I", NO_LOG_FLUSH))
        os.close(mount)
    for pid, _ in writers:
        os.kill(pid, signal.SIGKILL)
    told = []
    for pid, listen in writers:
        os.waitpid(pid, 0)
        with os.fdopen(listen, "rb") as said:
            *words, _ = said.read().decode().split("\n")  # the last one may have been cut short
        told.append(words)
    return told


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_live_and_die(Round(**json.loads(line)))) + "\n")
        sys.stdout.flush()
