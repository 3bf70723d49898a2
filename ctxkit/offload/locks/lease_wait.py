"""Waiting for a lease on a file without blocking the event loop, and without leaving a lock behind when cancelled."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from ctxkit.errors import SessionLockedError
from ctxkit.offload.locks.file_lease import FileLease, held_error, write_error
from ctxkit.offload.locks.holder import Holder

_T = TypeVar("_T")

_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.05
"""How late a freed lock is noticed at most: little beside a reply, and 20 looks a second cost next to nothing."""


class ThreadedLease:
    """A lease on a file for the event loop; conforms to `ctxkit.offload.capabilities.Lease`.

    Args:
        lease: The lease.
        executor: Where the file is touched; `None` for the event loop's own.
    """

    def __init__(self, lease: FileLease, *, executor: Executor | None = None) -> None:
        self.file = lease
        self._executor = executor

    @property
    def epoch(self) -> int:
        """The owner's number, higher than that of all owners before it."""
        return self.file.epoch

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may hold it by now."""
        return self.file.is_lost

    async def renew(self) -> None:
        """Look whether it is held still; the kernel frees it at its owner's death, so no time runs out.

        Raises:
            SessionLockedError: It was released, or its file was removed.
        """
        if not await self._in_thread(self.file.check):
            msg = f"The lock {str(self.file.path)!r} is not held any more: take it again and load what it guards anew."
            raise SessionLockedError(msg)

    async def release(self) -> None:
        """Let go; a second time does nothing, and cancellation does not keep it."""
        await asyncio.shield(self._in_thread(self.file.release))

    def _in_thread(self, call: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, call)


class _Attempt:
    """One look in a thread, whose lease goes to who asked for it or, when that one has left, to nobody."""

    def __init__(self, attempt: Callable[[], FileLease | Holder | None]) -> None:
        self._attempt = attempt
        self._guard = threading.Lock()
        self._is_left = False
        self._found: FileLease | Holder | None = None

    def run(self) -> FileLease | Holder | None:
        found = self._attempt()
        with self._guard:
            self._found = found
            is_left = self._is_left
        if is_left and isinstance(found, FileLease):
            found.release()
        return found

    def leave(self) -> FileLease | None:
        """Say that nobody waits any more, and return the lease that came too late, which is to be released."""
        with self._guard:
            self._is_left = True
            return self._found if isinstance(self._found, FileLease) else None


async def lease_when_free(
    attempt: Callable[[], FileLease | Holder | None], *, what: str, timeout_s: float, executor: Executor | None = None
) -> ThreadedLease:
    """Take a lease as soon as its owner has let go of it; cancellation leaves at once and leaves nothing locked.

    Args:
        attempt: `try_take` with its arguments; called in a thread.
        what: What is taken, for messages: "Session 'abc'".
        timeout_s: Seconds to wait for another owner.
        executor: Where files are touched; `None` for the event loop's own.

    Raises:
        SessionLockedError: Another owner held it all the time; the message names it.
        StoreWriteError: The file could not be opened, locked or written.
    """
    loop = asyncio.get_running_loop()
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        one = _Attempt(attempt)
        try:
            found = await loop.run_in_executor(executor, one.run)
        except asyncio.CancelledError:
            late = one.leave()
            if late is not None:
                loop.run_in_executor(executor, late.release)
            raise
        except OSError as exc:
            raise write_error(what, exc) from exc
        if isinstance(found, FileLease):
            return ThreadedLease(found, executor=executor)
        left = deadline - time.monotonic()
        if left <= 0:
            raise await loop.run_in_executor(executor, partial(held_error, what, found, waited_s=timeout_s))
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
