"""A process of its own that takes a session again and again; run by the tests of locks.

Usage: `python lockholder.py FOLDER COUNT`, with two owners at once in the process.
"""

import asyncio
import os
import sys
from pathlib import Path

from ctxkit.sessions import SessionLocks


async def work(locks: SessionLocks, folder: Path, count: int) -> None:
    inside = folder / "inside"
    for _ in range(count):
        async with locks.hold("s", owner=object(), path=folder / "s.lock", note=str(os.getpid())) as hold:
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # fails where another one is inside
            await asyncio.sleep(0)
            sys.stdout.write(f"{hold.epoch}\n")
            inside.unlink()


async def main(folder: Path, count: int) -> None:
    async with SessionLocks(timeout_s=60) as locks:
        await asyncio.gather(work(locks, folder, count), work(locks, folder, count))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
