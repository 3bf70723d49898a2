"""Where the records of a session's log stand: what is kept in memory of its files, about 300 bytes a record."""

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctxkit.offload import lines
from ctxkit.offload.directory import read_at
from ctxkit.offload.store import MESSAGE

LOG_NAME: Final = "context.jsonl"
"""The first segment of a log, and what stands for all of them."""

_SEGMENT: Final = re.compile(r"context(?:-([0-9]{4,9}))?\.jsonl")
_CHUNK_BYTES: Final = 1 << 20
_SAID: Final = ("message", "")
_LONGEST_GAP: Final = 1_000_000_000
"""Damage may leave a gap between two numbers; a wider one was never written, and would use up the numbers there are."""


def segment_name(number: int) -> str:
    """Return the file name of a segment, 1-based."""
    return LOG_NAME if number == 1 else f"context-{number:04}.jsonl"


def segment_number(name: str) -> int | None:
    """Return the 1-based number of a segment, or None where a file is none."""
    match = _SEGMENT.fullmatch(name)
    number = int(match[1] or 1) if match else 0
    return number if number and segment_name(number) == name else None


def segments_of(names: Iterable[str]) -> Sequence[str]:
    """Return the segments among file names, in order."""
    found = sorted((number, name) for name in names if (number := segment_number(name)) is not None)
    return [name for _, name in found]


class Row(NamedTuple):
    """One record."""

    number: int
    segment: str
    offset: int
    size: int
    line: lines.Line
    """What else is known of it, without its body."""


class Damage(NamedTuple):
    """A line that is no record."""

    segment: str
    offset: int
    size: int


@dataclass(slots=True)
class Segment:
    """One file of a log."""

    name: str
    file: tuple[int, int]
    """Device and inode."""
    end: int = 0
    """Byte behind the last whole line that was read."""
    seen: int = 0
    """Its size when it was read: behind `end` stands what is no whole line yet."""

    def is_same(self, status: os.stat_result) -> bool:
        """Tell whether a status is of this file and says nothing new; behind a line that was not whole it may."""
        return self.file == (status.st_dev, status.st_ino) and self.end == self.seen == status.st_size


class LogIndex:
    """The records of all segments of a log, and the keys that they have."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.sure = (0, 0)
        """Segments, and bytes of the last one, that were learnt under the lock: behind them another writer may still
        take back a failed write."""
        self._numbers = array("Q")
        self._places = array("I")
        self._offsets = array("Q")
        self._sizes = array("Q")
        self._keys: list[str | None] = []
        self._known: set[str] = set()
        self._said: dict[int, tuple[str, str]] = {}
        """Kind and provenance by row, of those that are not just messages."""
        self._spills: dict[int, lines.Spill] = {}
        self._call: tuple[int, int, int, int] | None = None
        """A call whose last lines have not come yet: segments and byte where it begins, records before it, lines that are
        to come."""

    @property
    def last(self) -> int:
        """The number of the last record; 0 where there is none."""
        return self._numbers[-1] if self._numbers else 0

    @property
    def position(self) -> tuple[int, int]:
        """Segments, and bytes of the last one, that have been learnt."""
        return len(self.segments), self.segments[-1].end if self.segments else 0

    @property
    def torn_from(self) -> int | None:
        """Byte of the last segment at which a call begins whose last lines are not there."""
        return None if self._call is None else self._call[1]

    def knows(self, key: str) -> bool:
        """Tell whether a record with the key is there."""
        return key in self._known

    def after(self, number: int) -> Iterator[Row]:
        """Yield the records above a number; those of a call that is not there as a whole are none yet."""
        end = len(self._numbers) if self._call is None else self._call[2]
        for at in range(bisect_right(self._numbers, number), end):
            kind, provenance = self._said.get(at, _SAID)
            line = lines.Line(b"", self._numbers[at], self._keys[at], kind, provenance, self._spills.get(at))
            name = self.segments[self._places[at]].name
            yield Row(self._numbers[at], name, self._offsets[at], self._sizes[at], line)

    def still_stands(self, at: int, descriptor: int) -> bool:
        """Tell whether the last record that was learnt of a segment is there yet.

        Who reads without the lock may have learnt what was taken back since, and an inode is given to the next file when
        a session was deleted: other records stand there then, and the file may be as large as before, or larger.

        Args:
            at: The segment, 0-based.
            descriptor: Its file.
        """
        row = bisect_right(self._places, at) - 1
        if row < 0 or self._places[row] != at:
            return True
        found = lines.examine(read_at(descriptor, self._sizes[row], self._offsets[row]))
        return found is not None and found.key == self._keys[row]

    def begin(self, name: str, status: os.stat_result) -> None:
        """Go on with the next segment."""
        self._call = None
        self.segments.append(Segment(name, (status.st_dev, status.st_ino)))

    def catch_up(self, descriptor: int) -> Sequence[Damage]:
        """Read the whole lines that have come since in the last segment, and return those that are no records."""
        segment = self.segments[-1]
        damaged: list[Damage] = []
        rest = bytearray()
        while chunk := read_at(descriptor, _CHUNK_BYTES, segment.end + len(rest)):
            searched = len(rest)
            rest += chunk
            if (stop := rest.rfind(b"\n", searched)) < 0:
                continue
            damaged += [
                Damage(segment.name, segment.end - len(line) - 1, len(line))
                for line in bytes(rest[:stop]).split(b"\n")
                if not self.learn(line)
            ]
            del rest[: stop + 1]
        segment.seen = segment.end + len(rest)
        return damaged

    def learn(self, line: bytes) -> bool:
        """Take in the next line (without its line break) of the last segment.

        Returns:
            False for one that is damaged; a blank one is passed over.
        """
        found = lines.examine(line)
        if found is not None:
            self._follow(found.more)
        if found is not None and (found.key is None or found.key not in self._known):
            self.add(found, len(line))
        else:
            self.segments[-1].end += len(line) + 1
        return found is not None or not line.strip(b" \t\r")

    def add(self, line: lines.Line, size: int) -> None:
        """Take in what is known of the next line of the last segment.

        Args:
            line: The line; its number counts only where it is above all before it, and not by far.
            size: Its bytes, without the line break.
        """
        row, segment = len(self._numbers), self.segments[-1]
        is_next = line.number is not None and 0 < line.number - self.last <= _LONGEST_GAP
        self._numbers.append(line.number if line.number is not None and is_next else self.last + 1)
        self._places.append(len(self.segments) - 1)
        self._offsets.append(segment.end)
        self._sizes.append(size)
        self._keys.append(line.key)
        if line.key is not None:
            self._known.add(line.key)
        if line.kind != MESSAGE or line.provenance:
            self._said[row] = (line.kind, line.provenance)
        if line.spill is not None:
            self._spills[row] = line.spill
        segment.end += size + 1

    def _follow(self, more: int) -> None:
        """Note which call the next line is of, and whether it is the last one."""
        if not more:
            self._call = None
        elif self._call is None or self._call[3] != more + 1:
            self._call = (*self.position, len(self._numbers), more)
        else:
            self._call = (*self._call[:3], more)

    def rewind(self, segments: int, end: int) -> None:
        """Forget what stands behind a number of segments, and behind a byte of the last of them."""
        while self._numbers and (self._places[-1], self._offsets[-1]) >= (segments - 1, end):
            for column in (self._numbers, self._places, self._offsets, self._sizes):
                column.pop()
            key = self._keys.pop()
            if key is not None:
                self._known.discard(key)
            self._said.pop(len(self._numbers), None)
            self._spills.pop(len(self._numbers), None)
        del self.segments[segments:]
        if self._call is not None and (segments, end) <= self._call[:2]:
            self._call = None
        if self.segments and self.segments[-1].end > end:
            self.segments[-1].end = self.segments[-1].seen = end
        self.sure = min(self.sure, self.position)
