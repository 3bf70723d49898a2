"""A process that writes one entry to memory and dies in the middle of its n-th write or sync.

Usage: `python mortal.py FOLDER N`. It exits with 0 where it made fewer of them.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from ctxkit.offload import FileStore
from tests.unit.memory.fakes import GOOD, leaving, memory, writer

write, fdatasync, fsync = os.write, os.fdatasync, os.fsync
left = int(sys.argv[2])


def is_last() -> bool:
    global left  # noqa: PLW0603 - one count for the process
    left -= 1
    return left == 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def torn_write(descriptor: int, data: Any) -> int:
    """Write, or write the first half and die."""
    if is_last():
        write(descriptor, bytes(data)[: len(data) // 2])
        die()
    return write(descriptor, data)


def dying_sync(sync: Any) -> Any:
    def synced(descriptor: int) -> None:
        if is_last():
            die()
        sync(descriptor)

    return synced


async def main(folder: str) -> None:
    store = FileStore(folder)
    of = memory(store, directory=folder)
    await of.leave(leaving())
    await of.write("plan-1", writer(GOOD))
    await store.aclose()


if __name__ == "__main__":
    os.write, os.fdatasync, os.fsync = torn_write, dying_sync(fdatasync), dying_sync(fsync)
    asyncio.run(main(sys.argv[1]))
