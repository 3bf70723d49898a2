"""Cancelling a call at each of its awaits, so that no place where it may be left is missed."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Literal, TypeVar

R = TypeVar("R")

When = Literal["early", "late"]
"""Whether the cancellation comes as the call begins to wait, or just as what it waits for is done."""

_AWAITS: Final = 1000
"""More awaits than this are not tried; a call that polls has no last one."""


class _Call(Awaitable[R]):
    """Awaits a coroutine and cancels the task that does so when it waits for the n-th time."""

    def __init__(self, call: Coroutine[Any, Any, R], *, at: int, when: When) -> None:
        self._call = call
        self._at = at
        self._when = when
        self.is_cancelled = False

    def __await__(self) -> Generator[Any, Any, R]:
        step: Callable[[], Any] = lambda: self._call.send(None)  # noqa: E731 - it is replaced by what is thrown next
        waited = 0
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the coroutine returns
            if waited == self._at:
                self._cancel(awaited)
            waited += 1
            try:
                yield awaited
            except BaseException as exc:  # noqa: BLE001 - goes on into the coroutine
                thrown = exc
                step = lambda: self._call.throw(thrown)  # noqa: B023, E731 - called before the next round
            else:
                step = lambda: self._call.send(None)  # noqa: E731 - as above

    def _cancel(self, awaited: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.is_cancelled = True
        if self._when == "late" and asyncio.isfuture(awaited):
            # Before the task's own callback: it is cancelled although what it waits for is done.
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


async def at_each_await(call: Callable[[int], Coroutine[Any, Any, R]], *, when: When) -> int:
    """Run a call again and again, cancelled at its first await, its second, until it ends before that.

    Args:
        call: Makes the call from the number of the round, 0-based.
        when: When the cancellation comes.

    Returns:
        How often it was cancelled.

    Raises:
        AssertionError: A cancelled call went on as if nothing had been.
    """
    for at in range(_AWAITS):
        cancelling = _Call(call(at), at=at, when=when)
        task = asyncio.ensure_future(_alone(cancelling))
        await asyncio.wait({task})
        if not cancelling.is_cancelled:
            task.result()
            return at
        assert task.cancelled(), f"cancelled at await {at} ({when}), the call did not raise CancelledError but " + (
            f"raised {task.exception()!r}" if task.exception() else "returned"
        )
    return _AWAITS


async def _alone(call: Awaitable[R]) -> R:
    return await call
