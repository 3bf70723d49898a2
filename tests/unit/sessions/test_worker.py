"""A store's own thread: what it holds open is closed in it, before another one begins."""

import asyncio
import threading

import pytest

from ctxkit.sessions.worker import Worker

pytestmark = pytest.mark.asyncio


async def test_a_call_behind_a_close_waits_until_what_was_open_is_closed():
    done, may_close = [], threading.Event()

    def closed():
        may_close.wait()
        done.append("closed")

    worker = Worker("ctxkit-test", closed=closed)
    await worker.run(lambda: done.append("opened"))
    closing = asyncio.create_task(worker.aclose())
    await asyncio.sleep(0)
    again = asyncio.create_task(worker.run(lambda: done.append("opened again")))
    await asyncio.sleep(0)
    closing.cancel()
    may_close.set()
    await again
    await worker.aclose()
    assert done == ["opened", "closed", "opened again", "closed"]
