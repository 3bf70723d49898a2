"""What may stand on a disk after a power cut: all that was synced, and any part of what was not."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from .recorder import Cut, Named, Step, Synced, SyncFailed, Written

_T = TypeVar("_T")


class Pick(Protocol):
    """Chooses one of what may be on a disk."""

    def __call__(self, among: Sequence[_T], /) -> _T:
        """Return one of them; the first is what is on the disk for sure, the last what was done last."""
        ...


def _first(among: Sequence[_T], /) -> _T:
    return among[0]


def _last(among: Sequence[_T], /) -> _T:
    return among[-1]


@dataclass
class _File:
    """A file: what is on the disk, and what has been done to it since."""

    sure: bytes = b""
    done: list[Written | Cut] = field(default_factory=list)
    doubtful: list[bool] = field(default_factory=list)
    """Of each thing that was done: whether a sync has failed since, so that the next one does not help."""

    def versions(self) -> list[bytes]:
        """Return the content as it is on the disk, and after each thing that was done."""
        content = bytearray(self.sure)
        found = [bytes(content)]
        for step in self.done:
            if isinstance(step, Cut):
                content = content[: step.size].ljust(step.size, b"\0")
            else:
                content = content.ljust(step.offset, b"\0")
                content[step.offset : step.offset + len(step.data)] = step.data
            found.append(bytes(content))
        return found

    def touched(self, sector: int, *, by_sure: bool = False) -> set[int]:
        """Return the sectors that something was done to; with `by_sure` only by what the next sync brings to the disk."""
        found: set[int] = set()
        longest = max(map(len, self.versions()))
        for step, is_doubtful in zip(self.done, self.doubtful, strict=True):
            if by_sure and is_doubtful:
                continue
            start, end = (step.size, longest) if isinstance(step, Cut) else (step.offset, step.offset + len(step.data))
            found.update(range(start // sector, -(-end // sector)))
        return found

    def sync(self, sector: int) -> None:
        """Bring to the disk what a sync does."""
        latest = self.versions()[-1]
        lost = self.touched(sector) - self.touched(sector, by_sure=True)
        sure = bytearray(latest)
        self.done, self.doubtful = [], []
        for at in sorted(lost):
            start, end = at * sector, min((at + 1) * sector, len(latest))
            if start < end:
                sure[start:end] = self.sure[start:end].ljust(end - start, b"\0")
                self.done.append(Written(0, start, latest[start:end]))
                self.doubtful.append(True)
        self.sure = bytes(sure)

    def content(self, pick: "Pick", sector: int) -> bytes:
        """Return what may stand there: each sector as it was at any moment since the sync, and any of the sizes since."""
        versions = self.versions()
        size = len(pick(versions))
        content = bytearray(versions[0].ljust(size, b"\0"))
        for at in self.touched(sector):
            start, end = at * sector, (at + 1) * sector
            content[start:end] = pick(versions)[start:end].ljust(sector, b"\0")
        return bytes(content[:size])


@dataclass
class _Folder:
    """A directory: the names on the disk, and what each has stood for since."""

    sure: dict[str, int] = field(default_factory=dict)
    done: list[tuple[str, int | None]] = field(default_factory=list)

    def latest(self) -> dict[str, int]:
        return _without_none({**self.sure, **dict(self.done)})

    def names(self, pick: "Pick") -> dict[str, int]:
        """Return what may stand there: each name as it was at any moment since the sync."""
        choices: dict[str, list[int | None]] = {}
        for name, node in self.done:
            choices.setdefault(name, [self.sure.get(name)]).append(node)
        return _without_none({**self.sure, **{name: pick(nodes) for name, nodes in choices.items()}})


def _without_none(names: dict[str, int | None]) -> dict[str, int]:
    return {name: node for name, node in names.items() if node is not None}


class Disk:
    """A disk to which steps are done one after another, and which may lose its power after any of them.

    Args:
        root: The directory that was recorded.
        sector: Bytes that are written whole or not at all.
    """

    def __init__(self, root: int, *, sector: int) -> None:
        self._root = root
        self._sector = sector
        self._files: dict[int, _File] = {}
        self._folders = {root: _Folder()}

    def do(self, step: Step) -> bool:
        """Do a step; return whether it has changed what may be on the disk."""
        match step:
            case Named(folder, name, node, is_folder):
                self._folders[folder].done.append((name, node))
                if node is not None and is_folder:
                    self._folders.setdefault(node, _Folder())
                elif node is not None:
                    self._files.setdefault(node, _File())
            case Written(node) | Cut(node):
                self._files[node].done.append(step)
                self._files[node].doubtful.append(False)
            case SyncFailed(node):
                if node in self._files:
                    self._files[node].doubtful = [True] * len(self._files[node].done)
            case Synced(node) if node in self._files:
                self._files[node].sync(self._sector)
            case Synced(node):
                folder = self._folders[node]
                folder.sure, folder.done = folder.latest(), []
            case _:
                return False
        return True

    def states(self, chance: Random, count: int) -> Iterator["State"]:
        """Yield what may be on the disk now: as a killed process leaves it, as it was synced, and others at random."""
        for pick in (_last, _first, *(chance.choice for _ in range(count - 2))):
            yield State(self._root, self, pick)

    def content(self, node: int, pick: "Pick") -> bytes:
        """Return what a file may have."""
        return self._files[node].content(pick, self._sector)

    def names(self, folder: int, pick: "Pick") -> dict[str, int]:
        """Return what names a directory may have."""
        return self._folders[folder].names(pick)

    def is_folder(self, node: int) -> bool:
        """Tell whether a node is a directory."""
        return node in self._folders


@dataclass(frozen=True)
class State:
    """One thing that may be on a disk."""

    root: int
    disk: Disk
    pick: "Pick"
    """Chooses what is on it among all that may be, the oldest first."""

    def make(self, place: Path) -> None:
        """Write it into an empty directory, to be looked at."""
        self._make(self.root, place, {})

    def _make(self, folder: int, place: Path, made: dict[int, Path]) -> None:
        for name, node in self.disk.names(folder, self.pick).items():
            path = place / name
            if self.disk.is_folder(node):
                path.mkdir(mode=0o700)
                self._make(node, path, made)
            elif node in made:
                os.link(made[node], path)
            else:
                made[node] = path
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                os.write(descriptor, self.disk.content(node, self.pick))
                os.close(descriptor)
