"""The tasks that a middleware has started: each has a name, and none outlives the closing of its middleware."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ctxkit.host.events import context_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

    from agentscope.agent import Agent

    from ctxkit.host.events import ContextEvent
    from ctxkit.port import EmitEvent

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

    async def stream(
        self, work: Callable[[EmitEvent], Coroutine[Any, Any, object]], agent: Agent, *, name: str
    ) -> AsyncGenerator[ContextEvent, None]:
        """Carry out work about an agent, and yield the events that it emits while it lasts; what it raises is raised.

        No lock is held across a `yield`: the work runs in a task of its own, which ends with the generator.
        """
        events: asyncio.Queue[ContextEvent | None] = asyncio.Queue()

        async def emit(event: str, value: Mapping[str, Any]) -> None:
            events.put_nowait(event_of(agent, event, value))

        task = self.start(work(emit), name=name)
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (told := await events.get()) is not None:
                yield told
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def finish(self, timeout_s: float) -> None:
        """Wait until what runs in this event loop has ended, and what it starts; for so many seconds at most.

        Nothing is cancelled.
        """
        here = asyncio.get_running_loop()
        deadline = here.time() + timeout_s
        while ours := {task for task in self._tasks if task.get_loop() is here and not task.done()}:
            left = deadline - here.time()
            if left <= 0:
                return
            await asyncio.wait(ours, timeout=left)

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


def event_of(agent: Agent, name: str, value: Mapping[str, Any]) -> ContextEvent:
    """Return an event about an agent, for the stream of its running reply."""
    about = {"session_id": agent.state.session_id, "agent": agent.name}
    return context_event(name, {**about, **value}, reply_id=agent.state.reply_id)
