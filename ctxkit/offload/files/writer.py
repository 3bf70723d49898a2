"""The thread of a store that writes its logs: what waits for the same log is written as one group, with one sync."""

import asyncio
import errno
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from ctxkit.errors import StoreWriteError
from ctxkit.offload.files.log import SessionLog
from ctxkit.offload.store import Record

_GROUP_BYTES: Final = 1 << 20
"""A group is closed when it has grown to this: it bounds the memory of a writer, and how long it holds the interpreter."""
_SYNC_AFTER_S: Final = 0.5
"""With `fsync="batch"` a log is synced this long after its first write that was not: within the second promised."""
_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02


class Waiting:
    """One call of `append`, from the moment it waits to its answer."""

    __slots__ = ("epoch", "error", "future", "loop", "records")

    def __init__(self, records: Sequence[tuple[bytes, Record]], epoch: int | None) -> None:
        self.records = records
        self.epoch = epoch
        self.error: BaseException | None = None
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()


class _Line:
    """The calls that wait for one log."""

    def __init__(self, patience_s: float) -> None:
        self.calls: deque[Waiting] = deque()
        self._patience_s = patience_s
        self.be_patient()

    @property
    def is_out_of_patience(self) -> bool:
        return time.monotonic() > self._deadline

    def be_patient(self) -> None:
        self._deadline = time.monotonic() + self._patience_s

    def group(self) -> list[Waiting]:
        """Take the next calls out of the line, without those that were cancelled."""
        group: list[Waiting] = []
        size = 0
        while self.calls and size < _GROUP_BYTES:
            call = self.calls.popleft()
            if not call.future.cancelled():
                group.append(call)
                size += sum(len(body) for body, _ in call.records)
        return group


class Writer:
    """Writes for all tasks of a store, one group after another.

    A session that another process is writing is put off and does not hold up the others.

    Args:
        lock_timeout_s: Seconds to wait for another writer of a session.
    """

    def __init__(self, *, lock_timeout_s: float) -> None:
        self._lock_timeout_s = lock_timeout_s
        # An executor of one thread starts it at the first write, and ends it when it is dropped or the process ends.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ctxkit-writer")
        self._arrived = threading.Event()
        self._queue: deque[tuple[SessionLog, Waiting]] = deque()
        self._is_busy = False
        self._is_closing = False

    def submit(
        self, log: SessionLog, records: Sequence[tuple[bytes, Record]], epoch: int | None
    ) -> "asyncio.Future[None]":
        """Queue records and return what is done when they are stored; call it on the event loop.

        Raises:
            StoreWriteError: The process is ending.
        """
        call = Waiting(records, epoch)
        self._queue.append((log, call))
        if self._is_busy:
            self._arrived.set()
        else:
            self._is_busy = True
            try:
                self._thread.submit(self._run)
            except RuntimeError as exc:
                self._is_busy = False  # or the next one would wait for a thread that never comes
                raise StoreWriteError("Nothing can be stored any more: the store or its process is ending.") from exc
        return call.future

    def close(self) -> None:
        """Write and sync all that waits, and end the thread; blocks."""
        self._is_closing = True
        self._arrived.set()
        self._thread.shutdown(wait=True)

    def _run(self) -> None:
        while True:
            self._work()
            self._is_busy = False
            # Who came between the last look into the queue and this line believed that it would be seen.
            if not self._queue:
                return
            self._is_busy = True

    def _work(self) -> None:
        """Write until nothing waits and all is synced."""
        held: dict[SessionLog, _Line] = {}
        unsynced: dict[SessionLog, float] = {}
        pause = _FIRST_PAUSE_S
        while True:
            while self._queue:
                log, call = self._queue.popleft()
                held.setdefault(log, _Line(self._lock_timeout_s)).calls.append(call)
            has_moved = False
            for log in list(held):
                has_moved |= self._write(log, held)
                if log.is_unsynced:
                    unsynced.setdefault(log, time.monotonic() + _SYNC_AFTER_S)
            self._sync(unsynced)
            if has_moved:
                pause = _FIRST_PAUSE_S
                continue
            if not held and not unsynced:
                return
            self._arrived.wait(pause if held else min(unsynced.values()) - time.monotonic())
            self._arrived.clear()
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _write(self, log: SessionLog, held: dict[SessionLog, _Line]) -> bool:
        """Write the next group of a log; False where another writer holds it."""
        line = held[log]
        group = line.group()
        problem: Exception | None = None
        try:
            if group and not log.commit(group):
                if not line.is_out_of_patience:
                    line.calls.extendleft(reversed(group))
                    return False
                group += line.calls
                line.calls.clear()
                msg = f"another writer has held the session for {self._lock_timeout_s:g} s"
                problem = TimeoutError(errno.ETIMEDOUT, msg)
        except Exception as exc:  # noqa: BLE001 - handed on to everyone who waits for the group
            problem = exc
        for call in group:
            call.error = call.error or problem
        if line.calls:
            line.be_patient()
        else:
            del held[log]
        _answer(group)
        return True

    def _sync(self, unsynced: dict[SessionLog, float]) -> None:
        now = time.monotonic()
        for log in [log for log, due in unsynced.items() if self._is_closing or due <= now]:
            del unsynced[log]
            log.sync()


def _answer(group: Sequence[Waiting]) -> None:
    """Wake all who wait, with one call for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for call in group:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, calls in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, calls)


def _settle(calls: Sequence[Waiting]) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is None:
            call.future.set_result(None)
        else:
            call.future.set_exception(call.error)
