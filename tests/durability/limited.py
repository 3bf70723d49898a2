"""A process of its own whose files may not grow beyond 20 KB, and later may.

Usage: `python limited.py ROOT`. It appends until nothing more is taken, then once more without the limit, and says in a
line of JSON which records were taken under the limit, which were refused and why.
"""

import asyncio
import json
import resource
import sys

from ctxkit.errors import StoreWriteError
from ctxkit.offload import FileStore, Record

LIMIT_BYTES = 20_000


def record(identifier: str) -> Record:
    """Return a record of 3 KB."""
    return Record(key=identifier, body=json.dumps({"id": identifier, "text": "x" * 3000}))


async def write(root: str) -> None:
    """Append under the limit, then without."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, before[1]))
    store = FileStore(root)
    told: dict[str, list[str]] = {"taken": [], "refused": [], "problems": []}
    for number in range(20):
        try:
            await store.append("s", [record(f"{number}")])
        except StoreWriteError as exc:
            told["refused"].append(f"{number}")
            told["problems"].append(str(exc))
        else:
            told["taken"].append(f"{number}")
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    await store.append("s", [record(told["refused"][0])])
    await store.aclose()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
