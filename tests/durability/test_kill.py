"""R1: processes that are killed while they store. What they were told is stored is there, once, whole and in order."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from ctxkit.offload import FileLimits

from .killed import Round
from .nursery import Nursery
from .promises import Promises, is_torn, segments_of

SEED = 20_261_122
ROUNDS_PER_PLACE = 12
"""A log is read as a whole after each death: this bounds it."""

pytestmark = [pytest.mark.crash, pytest.mark.skipif(os.name != "posix", reason="kills processes by signal")]


@dataclass
class Figures:
    """What the rounds have seen."""

    rounds: int = 0
    places: int = 0
    appended: int = 0
    put: int = 0
    torn: int = 0
    mended: int = 0
    segments: int = 0
    retried: int = 0
    retried_in_vain: int = 0

    def leave(self, place: "Place | None") -> None:
        """Count what is left in a place."""
        if place is not None:
            self.places += 1
            self.segments += len(segments_of(place.root))
            self.mended += len([*place.root.glob("sessions/s/context*.jsonl.*")])
            self.retried += place.promises.retried
            self.retried_in_vain += place.promises.retried_in_vain


def plant(root: Path, chance: Random) -> bool:
    """Break the log as a crash may have: a bad line that others will follow, or a line without its end."""
    files = segments_of(root)
    if not files or chance.random() < 0.7:
        return False
    start = files[-1].read_bytes()[:200].partition(b"\n")[0]
    if chance.random() < 0.5:
        broken = chance.choice([b"\0" * chance.randint(1, 9_000), start[:-9], b'{"id": nobody}']) + b"\n"
    else:
        broken = b'{"id":"torn-' + start[: chance.randint(1, 60)].replace(b"}", b"")
    with files[-1].open("ab") as log:
        log.write(broken)
    return True


@dataclass(frozen=True, kw_only=True)
class Place:
    """A directory in which some rounds take place, and how they store in it."""

    root: Path
    record_bytes: int | None
    segment_bytes: int
    fsync: str
    promises: Promises

    @classmethod
    def any_of(cls, roots: Sequence[Path], chance: Random) -> "Place":
        """Return an empty one; what the death of a process costs depends on none of the choices."""
        root = chance.choice(roots)
        shutil.rmtree(root, ignore_errors=True)
        record_bytes, segment_bytes = chance.choice([1 << 20, None]), chance.choice([20_000, 400_000, 4_000_000])
        limits = FileLimits(record_bytes=record_bytes, segment_bytes=segment_bytes)
        return cls(
            root=root,
            record_bytes=record_bytes,
            segment_bytes=segment_bytes,
            fsync=chance.choice(["always", "always", "batch", "off"]),
            promises=Promises(root, limits),
        )

    def round(self, turn: int, *, writers: int, chance: Random) -> Round:
        """Return the next life of writers there: half of them die as they begin, as far as the machine is slow."""
        return Round(
            root=str(self.root),
            names=[f"r{turn}w{number}" for number in range(writers)],
            epoch=turn + 1,
            live_s=chance.uniform(0.002, 0.120),
            is_at_work=chance.random() < 0.5,
            record_bytes=self.record_bytes,
            segment_bytes=self.segment_bytes,
            fsync=self.fsync,
        )


def kill_again_and_again(
    roots: Sequence[Path], *, rounds: int, appended: int, torn: int, writers: int, seed: int
) -> Figures:
    """Let writers live and die, and check what is left after each death.

    Args:
        roots: Directories to use.
        rounds: Deaths, at least.
        appended: Records that were acknowledged, at least.
        torn: Deaths that left half a line, at least.
        writers: Processes that die together.
        seed: Of all that is random here; when a process dies in its work is not.
    """
    chance, figures, place = Random(seed), Figures(), None
    with Nursery() as nursery:
        while place is None or figures.rounds < rounds or figures.appended < appended or figures.torn < torn:
            if figures.rounds % ROUNDS_PER_PLACE == 0:
                figures.leave(place)
                place = Place.any_of(roots, chance)
            is_planted = plant(place.root, chance)
            one = place.round(figures.rounds, writers=writers, chance=chance)
            try:
                for name, told in zip(one.names, nursery.run(one), strict=True):
                    assert not [word for word in told if word.startswith("!")]
                    place.promises.take(name, told)
                    figures.appended += sum(word.startswith("A") for word in told)
                    figures.put += sum(word.startswith("B") for word in told)
                figures.torn += not is_planted and is_torn(place.root)
                place.promises.check(contiguous=True)
            except AssertionError as exc:
                exc.add_note(f"seed {seed}, {one}")
                raise
            figures.rounds += 1
    figures.leave(place)
    return figures


@pytest.fixture
def roots(tmp_path) -> Iterator[Sequence[Path]]:
    """Directories on a disk, and where it can be had on a file system in memory: quick, so that more is under way."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as quick:
        yield [tmp_path / "place", Path(quick) / "place"]


@pytest.mark.row("A8", "X1")
@pytest.mark.parametrize(("writers", "share"), [(1, 3), (4, 1)])
def test_what_killed_writers_were_told_is_stored_is_there_once_whole_and_in_order(
    roots, volume, figures, writers, share
):
    seen = kill_again_and_again(
        roots,
        rounds=volume(short=15, full=250) * share,
        appended=volume(short=50, full=5_000) * share,
        torn=volume(short=0, full=1),  # so few deaths may all miss a write
        writers=writers,
        seed=SEED + writers,
    )
    figures(f"kill -9 of {writers}: {seen}: 0 lost, 0 twice, 0 gaps, 0 partial")
    assert seen.put > 0
    assert seen.mended > 0
    assert seen.segments > seen.places
