"""One thread of a store's own, in which everything that blocks is done, one thing after another."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

_T = TypeVar("_T")


class Worker:
    """Runs calls in one thread, which is started when it is first needed, again after `aclose` or a fork.

    Args:
        name: Name of the thread.
        closed: Called in the thread after its last call.
    """

    def __init__(self, name: str, *, closed: Callable[[], None] | None = None) -> None:
        self._name = name
        self._closed = closed
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._thread: ThreadPoolExecutor | None = None
        self._closing: Future[None] | None = None
        """The last call of the thread before this one."""

    async def run(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns; a caller that is cancelled leaves at once, and the call is carried out or not."""
        return await asyncio.wrap_future(self._own().submit(call))

    async def aclose(self) -> None:
        """End the thread when it has done what it was given."""
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            closing = self._closing = None if self._closed is None else thread.submit(self._closed)
            thread.shutdown(wait=False)
            if closing is not None:
                # Who is cancelled does not keep it: what is open belongs to that thread, and another one cannot close it.
                await asyncio.shield(asyncio.wrap_future(closing))

    def _own(self) -> ThreadPoolExecutor:
        with self._guard:
            if self._pid != os.getpid():
                # A forked child has none of its parent's threads.
                self._thread = self._closing = None
                self._pid = os.getpid()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
                if self._closing is not None:
                    # What the thread before holds open is its own: this one begins when that is closed.
                    self._thread.submit(wait, [self._closing])
            return self._thread
