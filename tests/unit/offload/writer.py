"""A process of its own that appends to a session until it is done or killed; run by the crash tests.

Usage: `python writer.py ROOT SESSION NAME COUNT`; each acknowledged number is a line on standard output.
"""

import asyncio
import json
import sys

from ctxkit.offload import FileLimits, FileStore, Record, record_key

LIMITS = FileLimits(segment_bytes=150_000, record_bytes=8_000)
"""Small, so that a few records make a new file, and some stand in files of their own."""


def record(name: str, number: int) -> Record:
    size = 8_000_000 if number % 199 == 198 else number * 7919 % 9000
    body = json.dumps({"id": f"{name}-{number}", "text": "x" * size})
    return Record(key=record_key(f"{name}-{number}", body), body=body)


def blob(name: str, number: int) -> bytes:
    return f"{name}-{number};".encode() * 4000


async def pieces(data: bytes):
    for at in range(0, len(data), 10_000):
        yield data[at : at + 10_000]


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(root: str, session: str, name: str, count: int) -> None:
    store = FileStore(root, limits=LIMITS)

    async def append(number: int) -> None:
        await store.append(session, [record(name, number)])
        say(str(number))

    for number in range(0, count, 4):
        await asyncio.gather(*map(append, range(number, min(number + 4, count))))
        if number % 20 == 0:
            await store.put(session, f"tool_result-{name}-{number}.txt", blob(name, number))
            say(f"F{number}")
            await store.put_chunks(session, f"tool_result-{name}-{number + 1}.txt", pieces(blob(name, number + 1)))
            say(f"F{number + 1}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
