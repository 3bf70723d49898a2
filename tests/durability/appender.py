"""A process of its own that appends to a session together with others.

Usage: `python appender.py ROOT NAME COUNT`. It says when it is ready, begins when it gets a line, and says what it was
answered for each append: a line on standard output with the number.
"""

import asyncio
import json
import sys
from random import Random

from ctxkit.offload import FileStore, Record

SESSION = "s"
TASKS = 4
"""Appends that one process has under way at once."""
SIZES = (10, 300, 500, 3_000, 9_000, 40_000)
BIG = 200_000


def size_of(name: str, number: int) -> int:
    """Return how many bytes the text of a record has: from 10 B to 200 KB."""
    return BIG if number % 50 == 0 else Random(f"{name}-{number}").choice(SIZES)


def record_of(name: str, number: int, size: int | None = None) -> Record:
    """Return a writer's record, whose content nobody else's has."""
    unit = f"{name}-{number};"
    size = size_of(name, number) if size is None else size
    body = json.dumps({"id": f"{name}-{number}", "text": (unit * (size // len(unit) + 1))[:size]})
    return Record(key=f"{name}-{number}", body=body)


async def write(root: str, name: str, number: int) -> None:
    """Append so many records, some of them two in one call and some of them twice."""
    store = FileStore(root, lock_timeout_s=120.0)
    left = iter(range(number))

    async def work() -> None:
        for at in left:
            await store.append(SESSION, [record_of(name, at)] * (2 if at % 7 == 0 else 1))
            sys.stdout.write(f"{at}\n")

    await asyncio.gather(*(work() for _ in range(TASKS)))
    await store.aclose()


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
