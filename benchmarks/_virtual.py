"""An event loop on which nobody waits: where only timers are left, its clock jumps to the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Result = TypeVar("Result")

STEP_S, SUMMARY_S = 6.0, 20.0
"""Seconds that an answer and a summary take: what is prepared meanwhile lies behind by so many steps."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still while anything runs, threads included, and jumps while all sleep.

    What takes time on it is what says so by `asyncio.sleep` or a deadline; work takes none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._working = 0

    def time(self) -> float:
        """Return the seconds that were slept so far."""
        return self._now

    def run_in_executor(  # type: ignore[override]  # its signature needs a TypeVarTuple to say the same
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function in a thread; the clock stands still until it has ended."""
        self._working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: asyncio.Future[Any]) -> None:
        self._working -= 1

    def _run_once(self) -> None:
        """Let the clock jump where there is nothing else to do; then do what is due, as the loop always does."""
        waiting = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # asyncio's own queues
        if waiting and not self._ready and not self._working:  # type: ignore[attr-defined]  # as above
            self._now = max(self._now, min(waiting))
        super()._run_once()  # type: ignore[misc]  # as above


def run_without_waiting(what: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a loop of this kind."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(what)
