"""R2: a file system whose power is cut while it is written to; what was told to be stored is on it afterwards."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from .killed import SESSION, Round, limits_of
from .loop_disk import LoopDisk
from .nursery import Nursery
from .promises import Promises, is_torn

SEED = 20_261_122
ROUNDS_PER_PLACE = 10

pytestmark = pytest.mark.crash


@dataclass
class Figures:
    """What the rounds have seen."""

    rounds: int = 0
    appended: int = 0
    put: int = 0
    saved: int = 0
    torn: int = 0
    mended: int = 0
    lost: list[str] = field(default_factory=list)
    """Only looked for in the control."""


def cut_again_and_again(disk: LoopDisk, *, rounds: int, seed: int, is_control: bool = False) -> Figures:
    """Cut the power while writers write, and check what is left each time.

    Args:
        disk: Where they write.
        rounds: Cuts.
        seed: Of all that is random here; when the power goes in the work of a process is not.
        is_control: Write without syncs and count what is lost.
    """
    chance, figures = Random(seed), Figures()
    root = disk.mount_point / "place"
    promises: Promises | None = None
    with Nursery() as nursery:
        for turn in range(rounds):
            if turn % ROUNDS_PER_PLACE == 0 or is_control:
                figures.mended += len([*root.glob("sessions/s/context*.jsonl.*")])
                shutil.rmtree(root, ignore_errors=True)
                promises = None
            one = Round(
                root=str(root),
                names=[f"r{turn}"],
                epoch=turn + 1,
                live_s=chance.uniform(0.005, 0.150),
                is_at_work=is_control or chance.random() < 0.8,
                record_bytes=1 << 20,
                segment_bytes=400_000,
                fsync="off" if is_control else "always",
                has_sessions=not is_control,  # their syncs would bring the rest to the disk too
                cut=str(disk.mount_point),
            )
            promises = promises or Promises(root, limits_of(one))
            # What a writer is told once the power is gone are errors, and they are none of ours.
            told = [word for word in nursery.run(one)[0] if not word.startswith("!")]
            disk.power_off()
            disk.power_on()
            promises.take(one.names[0], told)
            figures.rounds += 1
            figures.appended += sum(word.startswith("A") for word in told)
            figures.put += sum(word.startswith("B") for word in told)
            figures.saved += sum(word.startswith(("S", "T")) for word in told)
            figures.torn += is_torn(root)
            if is_control:
                figures.lost += lost(root, promises)
                continue
            try:
                promises.check(contiguous=False)
            except AssertionError as exc:
                exc.add_note(f"{disk.kind}, seed {seed}, {one}")
                raise
    return figures


def lost(root: Path, promises: Promises) -> list[str]:
    """Return the keys that a log should have and has not, without a store, which would refuse what it finds."""
    content = b"".join(file.read_bytes() for file in root.glob(f"sessions/{SESSION}/context*.json*"))
    return [key for key in promises.records if f'"k":"{key}"'.encode() not in content]


@pytest.fixture
def place(tmp_path) -> Iterator[Path]:
    """A directory for images; in memory where there is room, so that more is under way when the power goes."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30:
        with TemporaryDirectory(dir=memory) as quick:
            yield Path(quick)
    else:
        yield tmp_path


@pytest.mark.row("A8", "X1")
@pytest.mark.parametrize(("kind", "rounds"), [("ext4", {"short": 12, "full": 300}), ("xfs", {"short": 6, "full": 60})])
def test_what_was_told_to_be_stored_survives_a_power_cut(place, volume, figures, kind, rounds):
    with LoopDisk(place, kind) as disk:
        seen = cut_again_and_again(disk, rounds=volume(**rounds), seed=SEED)
    figures(f"power cut of {kind}: {seen}")
    assert seen.appended > 0
    assert seen.put > 0
    assert seen.saved > 0


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_power_cut_without_syncs_loses_something_so_the_test_can_see_it(place, volume, figures, kind):
    with LoopDisk(place, kind) as disk:
        seen = cut_again_and_again(disk, rounds=volume(short=2, full=20), seed=SEED, is_control=True)
    figures(f"power cut of {kind} without syncs: {seen.appended} appended, {len(seen.lost)} lost")
    assert seen.lost
