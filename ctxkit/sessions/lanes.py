"""Lanes: queues that let one work at a time, first come, first served, across the event loops of a process."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

GLOBAL: Final = "global"
"""The lane on which compressions of all sessions of the process go one after another."""


def session_lane(session_id: str) -> str:
    """Return the lane of a session."""
    return f"session:{session_id}"


def summary_lane(session_id: str) -> str:
    """Return the lane on which models are asked for summaries of a session; whoever enters it does so before all others."""
    return f"summary:{session_id}"


class Turn:
    """One's turn on a lane, until it leaves.

    Args:
        name: The lane.
        loop: The event loop of the one whose turn it is.
        leave: Lets the next one on.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, *, leave: Callable[["Turn"], None]) -> None:
        self.name = name
        self.loop = loop
        self.by: object = None
        """What `Lanes.holder` tells others; whoever has the turn may set it."""
        self._leave = leave

    def leave(self) -> None:
        """Let the next one on, from any thread; a second time does nothing."""
        self._leave(self)


@dataclass
class _Lane:
    turn: Turn
    waiting: deque[tuple[Turn, "asyncio.Future[None]"]] = field(default_factory=deque)


class Lanes:
    """Named lanes, each made when somebody enters it and forgotten when nobody is on it.

    Whoever is cancelled while waiting leaves the queue, and an error of the one whose turn it is goes to its own caller
    and lets the next one on. A forked child finds all lanes empty, and a lane whose holder's event loop was closed
    under it is free for the next one.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    @asynccontextmanager
    async def enter(self, *names: str) -> AsyncIterator[None]:
        """Wait for one's turn on each lane, in the order given, and leave them at the end.

        Who enters several does so in the same order everywhere, the summary's first and the global one last, or two wait
        for each other. A lane is not re-entrant.
        """
        async with AsyncExitStack() as turns:
            for name in names:
                turns.callback((await self.take(name)).leave)
            yield

    async def take(self, name: str) -> Turn:
        """Wait for one's turn on a lane; cancellation leaves the queue."""
        self._own()
        loop = asyncio.get_running_loop()
        mine = Turn(name, loop, leave=self._leave)
        with self._guard:
            lane = self._lanes.get(name)
            if lane is not None and lane.turn.loop.is_closed():
                self._pass_on(lane)
                lane = self._lanes.get(name)
            if lane is None:
                self._lanes[name] = _Lane(mine)
                return mine
            place = (mine, loop.create_future())
            lane.waiting.append(place)
        try:
            await place[1]
        except BaseException:
            with self._guard:
                if place in lane.waiting:
                    lane.waiting.remove(place)
            mine.leave()  # it may have become our turn at the same moment
            raise
        return mine

    def waiting(self, name: str) -> int:
        """Return how many wait for their turn on a lane."""
        self._own()
        with self._guard:
            lane = self._lanes.get(name)
            return 0 if lane is None else len(lane.waiting)

    def is_busy(self, name: str) -> bool:
        """Return whether it is somebody's turn on a lane, and their event loop is still open."""
        self._own()
        lane = self._lanes.get(name)
        return lane is not None and not lane.turn.loop.is_closed()

    def holder(self, name: str) -> object:
        """Return what the one whose turn it is says of itself; `None` where it says nothing or nobody is there."""
        self._own()
        lane = self._lanes.get(name)
        return None if lane is None else lane.turn.by

    def _leave(self, turn: Turn) -> None:
        if self._pid != os.getpid():
            return
        with self._guard:
            lane = self._lanes.get(turn.name)
            if lane is not None and lane.turn is turn:
                self._pass_on(lane)

    def _pass_on(self, lane: _Lane) -> None:
        """Let the next one on whose event loop still runs."""
        name = lane.turn.name
        while lane.waiting:
            turn, future = lane.waiting.popleft()
            try:
                turn.loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:
                continue  # closed while it waited
            lane.turn = turn
            return
        del self._lanes[name]

    def _own(self) -> None:
        """Begin anew in a forked child: those who stood on the lanes are not there."""
        if self._pid != os.getpid():
            self._guard = threading.Lock()
            self._lanes = {}
            self._pid = os.getpid()


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


PROCESS_LANES: Final = Lanes()
"""The lanes of this process: locks queue on them, and compressions where the settings say so."""
