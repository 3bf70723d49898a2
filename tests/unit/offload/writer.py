"""A process of its own that appends to a session until it is done or killed; run by the crash tests.

Usage: `python writer.py ROOT SESSION NAME COUNT`; each acknowledged number is a line on standard output.
"""

import asyncio
import json
import sys

from ctxkit.offload import FileStore, Record, record_key


def record(name: str, number: int) -> Record:
    body = json.dumps({"id": f"{name}-{number}", "text": "x" * (number * 7919 % 9000)})
    return Record(key=record_key(f"{name}-{number}", body), body=body)


def blob(name: str, number: int) -> bytes:
    return f"{name}-{number};".encode() * 4000


async def main(root: str, session: str, name: str, count: int) -> None:
    store = FileStore(root)
    for number in range(count):
        await store.append(session, [record(name, number)])
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        if number % 5 == 0:
            await store.put(session, f"tool_result-{name}-{number}.txt", blob(name, number))
            sys.stdout.write(f"F{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
