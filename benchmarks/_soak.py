"""What both soaks have in common: what is said in them, how time and memory are taken, and what is asked at the end."""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import time
from array import array
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks._process import memory_mib
from benchmarks.token_samples import sample

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from ctxkit import Store

WINDOW = 8192
FACT_TURN = 7
FACT = "The archive's door opens with ZULU-7731-KESTREL."
FACT_QUERY = "archive door"
SEARCH_EVERY = 50
"""The agent looks something up in what has left its context, every so many turns."""
BIG_EVERY = 20
"""A result that is too large for the context, every so many turns."""
SMALL_CHARS, BIG_CHARS = 500, 12_000

_TENTHS = 10
_MEMORY_LOOKS = 400
_BOUNDS = re.compile(rb"<<([a-z]+\d+)\b|\b([a-z]+\d+)>>")


def said_by_user(turn: int) -> str:
    """Return what the user says in a turn, 1-based; begun and ended by marks that are sought at the end."""
    fact = f" Remember: {FACT}" if turn == FACT_TURN else ""
    return f"<<u{turn} Look at page {turn} now.{fact} u{turn}>>"


def said_by_tool(turn: int) -> str:
    """Return what a tool answers in a turn, between such marks."""
    rnd = random.Random(turn)
    chars = BIG_CHARS if turn % BIG_EVERY == 0 else SMALL_CHARS
    return f"<<r{turn} {sample(rnd.choice(('prose', 'code', 'service log', 'listing')), rnd, chars)} r{turn}>>"


class Pulse:
    """The time of each turn, and the memory of the process every now and then.

    Args:
        turns: How many there will be.
    """

    def __init__(self, turns: int) -> None:
        # Made at once, so that what measures does not grow.
        self._wall = array("d", bytes(8 * turns))
        self._cpu = array("d", bytes(8 * turns))
        self._memory = array("d", bytes(8 * turns))
        self._every = max(1, turns // _MEMORY_LOOKS)
        self._turn = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Measure one turn."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self._wall[self._turn] = (time.perf_counter() - wall) * 1000
        self._cpu[self._turn] = (time.process_time() - cpu) * 1000
        if self._turn % self._every == 0:
            self._memory[self._turn] = memory_mib()
        self._turn += 1

    def figures(self) -> dict[str, list[float]]:
        """Return figures of each tenth of the run: milliseconds a turn, and MiB."""
        size = len(self._wall) // _TENTHS
        cuts = [slice(n * size, (n + 1) * size) for n in range(_TENTHS)]
        return {
            "processor_ms": [median(self._cpu[cut]) for cut in cuts],
            "processor_mean_ms": [fmean(self._cpu[cut]) for cut in cuts],
            "wall_ms": [median(self._wall[cut]) for cut in cuts],
            "memory_mib": [median(filter(None, self._memory[cut])) for cut in cuts],
        }


async def unreadable(store: Store, session_id: str, live: Sequence[str], turns: int) -> list[str]:
    """Return what was said and can be read nowhere any more as a whole: neither in the store nor in the context.

    Args:
        store: What the soak stored in.
        session_id: Its session.
        live: Texts of the context.
        turns: How many turns there were.
    """
    begun: set[bytes] = set()
    whole: set[bytes] = set()

    def look(data: bytes) -> None:
        for start, end in _BOUNDS.findall(data):
            if start:
                begun.add(start)
            elif end in begun:
                whole.add(end)
        begun.clear()

    for text in live:
        look(text.encode())
    async for data in _stored(store, session_id):
        look(data)
    return [name for turn in range(1, turns + 1) for name in (f"u{turn}", f"r{turn}") if name.encode() not in whole]


async def _stored(store: Store, session_id: str) -> AsyncIterator[bytes]:
    async for entry in store.list(session_id):
        yield await store.get(entry.reference, entry.offset, entry.size)


def soak_options() -> argparse.Namespace:
    """Return the options of a soak's own process: how many turns, and where its figures go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("turns", type=int)
    parser.add_argument("json", type=Path)
    logging.getLogger("ctxkit").setLevel(logging.CRITICAL)
    return parser.parse_args()


def write_figures(path: Path, pulse: Pulse, **told: Any) -> None:
    """Write what came of a soak."""
    path.write_text(json.dumps({**told, **pulse.figures()}), encoding="utf-8")
