"""R2: every moment at which a store may die, and whatever part of what was not synced may be on the disk then."""

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeGuard

import pytest

from ctxkit.errors import RecordNotFoundError
from ctxkit.offload import FileLimits
from ctxkit.offload.files import mend

from .disk_states import Disk
from .lives import Life, Liver, Told, look
from .recorder import Recorder, Said, Step, Synced

SEED = 20_261_122
PER_MOMENT = 3

pytestmark = [
    pytest.mark.crash,
    pytest.mark.may_block("makes thousands of small disks"),
    pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="records the system calls of POSIX"),
]


async def record_life(place: Path, seed: str) -> tuple[Life, Recorder]:
    """Let stores live on an empty disk and return what happened, and all that they did."""
    chance = Random(seed)
    limits = FileLimits(record_bytes=chance.choice([400, 1 << 20]), segment_bytes=chance.choice([300, 2000, 1 << 20]))
    life = Life(seed, limits)
    disk = place / "disk"
    disk.mkdir()
    recorder = Recorder(disk)
    with recorder.recording():
        await Liver(recorder, chance, life).live(chance.randint(4, 14))
    shutil.rmtree(disk)
    return life, recorder


async def look_at_states(place: Path, life: Life, root: int, trace: Sequence[Step], *, most: int) -> int:
    """Look at the states that a disk may have after each step of a trace, and return how many they were."""
    chance, count, told = Random(life.seed), 0, Told()
    disk = Disk(root, sector=chance.choice([512, 4096]))
    for at, step in enumerate(trace):
        if isinstance(step, Said):
            told.add(life, step.word)
        disk.do(step)
        if isinstance(trace[min(at + 1, len(trace) - 1)], Said) and at + 1 < len(trace):
            continue  # the next moment has the same disk, and more was promised
        for number, state in enumerate(disk.states(chance, PER_MOMENT)):
            if count == most:
                return count
            shown = place / "shown"
            shown.mkdir()
            state.make(shown)
            try:
                await look(shown, life, told, is_power_cut=number > 0)
            except BaseException as exc:
                exc.add_note(f"life {life.seed!r}, step {at} of {len(trace)}, state {number}")
                raise
            finally:
                shutil.rmtree(shown)
            count += 1
    return count


async def look_at_lives(
    place: Path, states: int, *, forget: Callable[[Recorder, Step], bool] = lambda *_: False
) -> int:
    """Record lives until so many states have been looked at, and return how many lives they were.

    Args:
        place: A directory to use.
        states: How many.
        forget: Which steps are left out, as if the store had not taken them.
    """
    lives, seen = 0, 0
    while seen < states:
        life, recorder = await record_life(place, f"{SEED}-{lives}")
        trace = [step for step in recorder.trace if not forget(recorder, step)]
        seen += await look_at_states(place, life, recorder.root, trace, most=states - seen)
        lives += 1
    return lives


@pytest.mark.row("A8", "X1")
def test_whatever_part_of_what_was_not_synced_is_on_the_disk_nothing_that_was_told_of_is_lost(quick, volume, figures):
    states = volume(short=1_500, full=20_000)
    lives = asyncio.run(look_at_lives(quick, states))
    figures(f"crash states: {states:,} after every step of {lives} lives of two stores: 0 lost, 0 twice, all parse")


def test_a_store_that_synced_no_file_would_be_seen_to_lose(quick):
    with pytest.raises(AssertionError, match=r"lost|is not what was sent"):
        asyncio.run(look_at_lives(quick, 1_500, forget=lambda of, step: is_sync(step) and step.node not in of.folders))


def test_a_store_that_synced_no_directory_would_be_seen_to_lose(quick):
    with pytest.raises((AssertionError, RecordNotFoundError), match=r"lost|Nothing is stored"):
        asyncio.run(look_at_lives(quick, 1_500, forget=lambda of, step: is_sync(step) and step.node in of.folders))


def test_a_store_that_mended_no_line_in_the_middle_would_be_seen_to_leave_it(quick, monkeypatch):
    monkeypatch.setattr(mend, "blank", lambda *_: None)
    with pytest.raises(pytest.fail.Exception, match="is no JSON"):
        asyncio.run(look_at_lives(quick, 1_500))


def is_sync(step: Step) -> TypeGuard[Synced]:
    return isinstance(step, Synced)
