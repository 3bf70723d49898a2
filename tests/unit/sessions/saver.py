"""A process of its own that saves a session until it is done or killed; run by the crash tests.

Usage: `python saver.py KIND PATH SESSION FIRST COUNT EPOCH`; each acknowledged number is a line on standard output. The
state of number n has the turns up to n, with messages of very different sizes. `lost` says that the session is another's.
"""

import asyncio
import sys

from ctxkit.errors import StaleOwnerError
from ctxkit.sessions import SessionStore, SqliteSessionStore, TranscriptSessionStore

KEPT = 6
"""Messages in the context; older ones have left it."""


def one_message(number: int) -> dict[str, object]:
    words = f"{number};" * (1 + number * 7919 % 4000)
    content = [{"type": "text", "text": words, "id": f"b{number}"}]
    return {"id": f"m{number}", "role": ("user", "assistant")[number % 2], "content": content}


def state_at(number: int) -> dict[str, object]:
    context = [one_message(at) for at in range(max(0, number - KEPT + 1), number + 1)]
    return {"session_id": "s", "summary": f"up to {number}", "context": context}


def open_store(kind: str, path: str) -> SessionStore:
    return SqliteSessionStore(path) if kind == "sqlite" else TranscriptSessionStore(path)


async def main(kind: str, path: str, session: str, *, first: str, count: str, epoch: str) -> None:
    store = open_store(kind, path)
    for number in range(int(first), int(first) + int(count)):
        try:
            await store.save(session, state_at(number), epoch=int(epoch) if epoch else None)
        except StaleOwnerError:
            sys.stdout.write("lost\n")
            break
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], first=sys.argv[4], count=sys.argv[5], epoch=sys.argv[6]))
