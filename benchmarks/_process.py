"""What the kernel says of this process and of its disk; only Linux tells."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from io import FileIO

_STATUS = Path("/proc/self/status")
_IO = Path("/proc/self/io")
_MOUNTS = Path("/proc/self/mounts")
_SCHEDULE = Path("/proc/thread-self/schedstat")
_TICK_S = 0.0005


def tells_figures() -> bool:
    """Whether the kernel tells what is asked for here."""
    return _STATUS.exists() and _IO.exists() and _SCHEDULE.exists()


def memory_mib(field: str = "VmRSS") -> float:
    """Return the memory that the process has now, or with `VmHWM` the most that it ever had, in MiB."""
    return _field(_STATUS, field) / 1024


def written_bytes() -> int:
    """Return the bytes of all calls of `write` that the process has made, whatever they wrote to."""
    return _field(_IO, "wchar")


def file_system(path: Path) -> str:
    """Return the type of the file system on which a directory lies, for example `ext4`."""
    if not _MOUNTS.exists():
        return "an unknown file system"
    mounts = [line.split()[1:3] for line in _MOUNTS.read_text("utf-8").splitlines()]
    home = path.resolve()
    return max(((point, kind) for point, kind in mounts if home.is_relative_to(point)), key=lambda one: len(one[0]))[1]


class Stalls:
    """How long the event loop kept a task waiting that wanted to run at every half millisecond.

    What its thread waited for a processor that other processes had is not counted, for the machine may be busy.
    """

    def __init__(self) -> None:
        self.longest_ms = 0.0
        """The longest time between two of the task's turns, in which the thread ran or was blocked."""
        self.longest_wall_ms = 0.0
        """The same by the clock on the wall."""

    async def watch(self) -> None:
        """Look until cancelled."""
        with _SCHEDULE.open("rb", buffering=0) as schedule:  # noqa: ASYNC230 - the kernel answers from memory
            last, waited = time.perf_counter(), _waited_s(schedule)
            while True:
                await asyncio.sleep(_TICK_S)
                now, waited_now = time.perf_counter(), _waited_s(schedule)
                self.longest_wall_ms = max(self.longest_wall_ms, (now - last) * 1000)
                self.longest_ms = max(self.longest_ms, (now - last - (waited_now - waited)) * 1000)
                last, waited = now, waited_now


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Stalls]:
    """Watch the event loop while the body runs."""
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    await asyncio.sleep(0)
    try:
        yield stalls
        await asyncio.sleep(2 * _TICK_S)
    finally:
        watching.cancel()


def _waited_s(schedule: FileIO) -> float:
    """Return for how long the thread that opened the file was ready to run and did not."""
    schedule.seek(0)
    return int(schedule.read(200).split()[1]) / 1e9


def _field(path: Path, name: str) -> int:
    """Return a number of a file of lines `name: number unit`."""
    for line in path.read_text("ascii", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    msg = f"{path} says nothing of {name}"
    raise LookupError(msg)
