"""The tasks that a middleware has started: each has a name, and none outlives the closing of its middleware."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class OwnedTasks:
    """Tasks of one owner; its agents may live through several event loops, one after the other."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task in the running event loop, and hold it until it has ended."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel what still runs and wait for it; what runs in another event loop is cancelled there."""
        here = asyncio.get_running_loop()
        ours = []
        for task in list(self._tasks):
            if task.get_loop() is here:
                task.cancel()
                ours.append(task)
            else:
                with suppress(RuntimeError):  # that event loop is closed, and the task with it
                    task.get_loop().call_soon_threadsafe(task.cancel)
        self._tasks.clear()
        await asyncio.gather(*ours, return_exceptions=True)
