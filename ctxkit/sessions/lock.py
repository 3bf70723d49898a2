"""One owner of a session at a time, across tasks, threads and processes."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from ctxkit.errors import ConfigError
from ctxkit.offload.locks.file_lease import held_error, holder_of, next_epoch, try_take
from ctxkit.offload.locks.holder import Holder
from ctxkit.offload.locks.lease_wait import ThreadedLease, lease_when_free
from ctxkit.sessions.lanes import PROCESS_LANES, Turn
from ctxkit.sessions.signals import SignalRelease

_T = TypeVar("_T")

logger = logging.getLogger("ctxkit.sessions")

COMPRESSION_GRACE_S: Final = 120.0
"""A compression may hold a session for its time-out and so many seconds (OpenClaw's rule): `hold.extend` takes both."""

_THREADS: Final = 2
"""Threads that touch lock files: no call there waits for an owner."""
_SHOWN_CHARS: Final = 100
"""Characters of a session id that a message shows."""


class _Process:
    """What belongs to one process: threads do not survive a fork, and a child holds nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = threading.Lock()
        self.held: dict[str, _Held] = {}
        self.watchdogs: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxkit-locks")

    def rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the watchdog of the running event loop where nothing is held in it any more."""
        with self.guard:
            if not any(held.turn.loop is loop for held in self.held.values()) and loop in self.watchdogs:
                self.watchdogs[loop].cancel()

    def forget(self, watchdog: asyncio.Task[None]) -> None:
        """Forget a watchdog that has ended, unless another one has taken its place."""
        with self.guard:
            loop = watchdog.get_loop()
            if self.watchdogs.get(loop) is watchdog:
                del self.watchdogs[loop]


@dataclass(kw_only=True, eq=False)
class _Held:
    """A session that is held, by one owner any number of times."""

    session_id: str
    key: str
    owner: object
    process: _Process
    turn: Turn
    holder: Holder
    lease: ThreadedLease | None
    """The lock between processes; `None` for a session that only this process can reach."""
    until: float
    """The clock's time at which its owner counts as hung."""
    count: int = 1
    is_ended: bool = False

    @property
    def is_lost(self) -> bool:
        is_forked = self.process.pid != os.getpid()
        return self.is_ended or is_forked or (self.lease is not None and self.lease.is_lost)


class Hold:
    """A session that its owner holds, until `release`; `SessionLocks` makes it."""

    def __init__(
        self, held: _Held, *, extend: Callable[[_Held, float | None], None], release: Callable[[_Held], Awaitable[None]]
    ) -> None:
        self._held = held
        self._extend = extend
        self._release = release
        self._is_released = False

    @property
    def session_id(self) -> str:
        """The session."""
        return self._held.session_id

    @property
    def epoch(self) -> int:
        """The owner's number, higher than that of all owners before it: give it to the stores, which refuse lower ones."""
        return self._held.holder.epoch

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may own the session by now, so that nothing of it may be written any more."""
        return self._is_released or self._held.is_lost

    def touch(self) -> None:
        """Say that the owner is at work: the limit counts from now."""
        self._extend(self._held, None)

    def extend(self, seconds: float) -> None:
        """Let the owner work for so many seconds without a `touch`; never shortens what it has."""
        self._extend(self._held, seconds)

    async def release(self) -> None:
        """Let go, wholly at the owner's last hold; a second time does nothing, and cancellation does not keep it."""
        if not self._is_released:
            self._is_released = True
            await self._release(self._held)


class SessionLocks:
    """Gives a session to one owner at a time; close it with `aclose()` or use it as a context manager.

    Between processes the lock is the kernel's, on a file, so it is free at the moment its owner dies. Tasks and threads
    of one process get it in the order in which they asked. An owner that has held it for too long without a sign of
    life loses it; stores refuse what it writes afterwards by its epoch.

    Args:
        timeout_s: Seconds to wait for another owner, at least 0.
        max_hold_s: Seconds that an owner may hold a session from its last `touch`, above 0.
        watchdog_s: Seconds between two looks for owners that have held for too long, above 0.
        release_on_signals: Let go of everything on SIGINT, SIGTERM, SIGQUIT and SIGABRT, then call the handlers that
            were there before. They are set at the first hold in the main thread, and taken back by `aclose`. The kernel
            frees the locks of a dead process in any case.
        clock: Monotonic seconds.

    Raises:
        ConfigError: A setting cannot work.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 10.0,
        max_hold_s: float = 300.0,
        watchdog_s: float = 60.0,
        release_on_signals: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if timeout_s < 0 or max_hold_s <= 0 or watchdog_s <= 0:
            msg = (
                f"SessionLocks(timeout_s={timeout_s!r}, max_hold_s={max_hold_s!r}, watchdog_s={watchdog_s!r}): give a "
                "time-out of at least 0 seconds, and the others above 0."
            )
            raise ConfigError(msg)
        self.timeout_s = timeout_s
        self.max_hold_s = max_hold_s
        self.watchdog_s = watchdog_s
        self._clock = clock
        self._releases_on_signals = release_on_signals
        self._signals: SignalRelease | None = None
        self._process = _Process()

    @asynccontextmanager
    async def hold(
        self, session_id: str, *, owner: object, path: str | os.PathLike[str] | None = None, note: str = ""
    ) -> AsyncIterator[Hold]:
        """Hold a session for a block of code; see `take`."""
        hold = await self.take(session_id, owner=owner, path=path, note=note)
        try:
            yield hold
        finally:
            await hold.release()

    async def take(
        self, session_id: str, *, owner: object, path: str | os.PathLike[str] | None = None, note: str = ""
    ) -> Hold:
        """Take a session; an owner that holds it already takes it once more, and lets go as often.

        Waiting does not block the event loop, and cancellation leaves nothing locked.

        Args:
            session_id: The session, any text.
            owner: Whose hold it is, by identity.
            path: The file that is locked between processes, `SessionStore.lock_path(session_id)`; its directory is made
                where it is missing. `None` for a session that only this process can reach.
            note: What others are told of the owner, such as the name of the agent.

        Raises:
            SessionLockedError: Another owner held it all the time; the message names it.
            StoreWriteError: The file could not be opened, locked or written.
        """
        process = self._own()
        file = None if path is None else _absolute(path)
        key = f"lock:{session_id}" if file is None else f"lock file:{file}"
        with process.guard:
            held = process.held.get(key)
            if held is not None and held.owner is owner and not held.is_lost:
                held.count += 1
                return self._handle(held)
        if held is not None and held.is_lost:
            await self._end(held)  # its owner has not noticed yet; nobody is to wait for it
        what = f"Session {session_id[:_SHOWN_CHARS]!r}"
        said = {"by": note} if note else {}
        started = time.monotonic()
        turn = await self._turn(process, key, file, what=what)
        try:
            lease = None
            if file is None:
                holder = await _in_thread(process, lambda: Holder.here(said, epoch=_own_epochs.next()))
            else:
                left = max(0.0, self.timeout_s - (time.monotonic() - started))
                attempt = partial(try_take, file.parent, file.name, owner=said)
                lease = await lease_when_free(attempt, what=what, timeout_s=left, executor=process.threads)
                holder = lease.file.holder
        except BaseException:
            turn.leave()
            raise
        turn.by = holder
        held = _Held(
            session_id=session_id,
            key=key,
            owner=owner,
            process=process,
            turn=turn,
            holder=holder,
            lease=lease,
            until=self._clock() + self.max_hold_s,
        )
        with process.guard:
            process.held[key] = held
        self._watch(process)
        return self._handle(held)

    async def check(self) -> None:
        """Take the session from each owner that has held it for too long, as the watchdog does from time to time."""
        await self._check(self._own())

    async def _check(self, process: _Process) -> None:
        for held in tuple(process.held.values()):
            if self._clock() >= held.until:
                why = "for longer than it may, without a sign of life"
            elif held.lease is not None and not await _in_thread(process, held.lease.file.check):
                why = "by a lock file that is not there any more"
            else:
                continue
            name, by = held.session_id[:_SHOWN_CHARS], held.holder.describe()
            logger.error("Session %r was held by %s %s: it is released, and its epoch is stale.", name, by, why)
            await self._end(held)

    async def aclose(self) -> None:
        """Let go of everything that is held, end the watchdog, and take signal handlers back."""
        process = self._own()
        self._process = _Process()  # the threads of the other end with what was held
        watchdog = process.watchdogs.get(asyncio.get_running_loop())
        for held in tuple(process.held.values()):
            await self._end(held)
        if watchdog is not None:
            await asyncio.wait([watchdog])
        if self._signals is not None:
            self._signals.restore()
            self._signals = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _own(self) -> _Process:
        if self._process.pid != os.getpid():
            self._process = _Process()
        return self._process

    def _handle(self, held: _Held) -> Hold:
        return Hold(held, extend=self._extend, release=self._release)

    def _extend(self, held: _Held, seconds: float | None) -> None:
        held.until = max(held.until, self._clock() + (self.max_hold_s if seconds is None else seconds))

    async def _turn(self, process: _Process, key: str, file: Path | None, *, what: str) -> Turn:
        """Wait for those of this process who asked before."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await PROCESS_LANES.take(key)
        except TimeoutError:
            holder = PROCESS_LANES.holder(key)
        if not isinstance(holder, Holder) and file is not None:  # who is before us waits for another process itself
            holder = await _in_thread(process, lambda: holder_of(file.parent, file.name))
        known = holder if isinstance(holder, Holder) else None
        raise await _in_thread(process, lambda: held_error(what, known, waited_s=self.timeout_s))

    async def _release(self, held: _Held) -> None:
        if held.process.pid != os.getpid():
            return  # a forked child holds nothing
        with held.process.guard:
            held.count -= 1
            is_last = held.count == 0
        if is_last:
            await self._end(held)

    async def _end(self, held: _Held) -> None:
        process = held.process
        with process.guard:
            if held.is_ended:
                return
            held.is_ended = True
            del process.held[held.key]
        with suppress(RuntimeError):  # that loop was closed, and its tasks with it
            held.turn.loop.call_soon_threadsafe(process.rest, held.turn.loop)
        if held.lease is None:
            held.turn.leave()
            return
        # In a thread whatever happens here: a cancelled task leaves nothing locked.
        done = process.threads.submit(held.lease.file.release)
        done.add_done_callback(lambda _: held.turn.leave())
        await asyncio.shield(asyncio.wrap_future(done))

    def _let_go(self) -> None:
        """Free the files at once, in the handler of a signal; the holds of this process see that they are lost."""
        for held in tuple(self._process.held.values()):
            if held.lease is not None:
                held.lease.file.release()

    def _watch(self, process: _Process) -> None:
        """Start the watchdog of this event loop, which lives as long as something is held in it."""
        loop = asyncio.get_running_loop()
        with process.guard:
            task = process.watchdogs.get(loop)
            if task is None or task.cancelling():
                task = loop.create_task(self._look_again(process), name="ctxkit-session-locks")
                process.watchdogs[loop] = task
                task.add_done_callback(process.forget)
        if self._releases_on_signals:
            self._signals = self._signals or SignalRelease(self._let_go)
            self._signals.install()

    async def _look_again(self, process: _Process) -> None:
        while True:
            await asyncio.sleep(self.watchdog_s)
            try:
                await self._check(process)
            except Exception:
                logger.exception("The watchdog of the session locks could not look; it looks again later.")


class _Epochs:
    """Numbers the owners of sessions that only this process can reach."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._guard:
            self._last = next_epoch(self._last)
            return self._last


_own_epochs: Final = _Epochs()


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.normpath(Path(path).absolute()))  # `resolve` would look at the disk


async def _in_thread(process: _Process, call: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(process.threads, call)
