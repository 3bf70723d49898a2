"""Who holds a lock: the record that stands in the lock file for others to read."""

import functools
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

_VALUES: Final = 4
"""Values of `owner` that are kept."""
_NAME_CHARS: Final = 20
_VALUE_CHARS: Final = 60
_LARGEST: Final = 1 << 63
_DEAD: Final = frozenset("ZXx")
"""States of a process that has ended and was not waited for yet."""
_PS_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Holder:
    """One owner of a lock, from the moment it took it."""

    pid: int
    host: str
    """Name of the machine, as the system has it."""
    created_ms: int
    """Milliseconds since the epoch at which it took the lock."""
    start_time: int | str | None = None
    """When its process was started, in the system's own terms: with the pid it tells one process from all others."""
    owner: Mapping[str, str | int] = field(default_factory=dict)
    """What it says of itself, such as agent and session; small and plain."""
    epoch: int = 0
    """Its number, higher than that of all owners before it."""
    released_ms: int | None = None
    """Milliseconds since the epoch at which it let go; `None` while it holds the lock, and where it died with it."""

    @classmethod
    def here(cls, owner: Mapping[str, str | int], *, epoch: int = 0) -> Self:
        """Return the record of this process; reads the system's table of processes the first time."""
        pid = os.getpid()
        return cls(
            pid=pid,
            host=platform.node(),
            created_ms=time.time_ns() // 1_000_000,
            start_time=_own_start_time(pid),
            owner=_bounded(owner),
            epoch=epoch,
        )

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """Return the holder that a record names; `None` for anything that is no record."""
        match value:
            case {"pid": int(pid), "host": str(host), "createdAt": int(created), **rest} if pid > 0:
                start, owner = rest.get("startTime"), rest.get("owner")
                epoch, released = rest.get("epoch"), rest.get("releasedAt")
                return cls(
                    pid=pid,
                    host=host,
                    created_ms=created,
                    start_time=start if isinstance(start, int | str) else None,
                    owner=_bounded(owner) if isinstance(owner, Mapping) else {},
                    epoch=epoch if isinstance(epoch, int) else 0,
                    released_ms=released if isinstance(released, int) else None,
                )
        return None

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON: times in milliseconds since the epoch."""
        record: dict[str, object] = {
            "pid": self.pid,
            "createdAt": self.created_ms,
            "startTime": self.start_time,
            "host": self.host,
            "owner": dict(self.owner),
            "epoch": self.epoch,
        }
        return record if self.released_ms is None else {**record, "releasedAt": self.released_ms}

    def describe(self) -> str:
        """Return the holder in words, for the message of an error."""
        said = ", ".join(f"{name} {value!r}" for name, value in self.owner.items())
        try:
            since = datetime.fromtimestamp(self.created_ms / 1000, UTC).isoformat(timespec="seconds")
        except (OverflowError, ValueError, OSError):
            since = f"{self.created_ms} ms"  # no year that a calendar has
        return f"pid {self.pid} on host {self.host!r}{f', {said}' if said else ''}, since {since}"

    def is_alive(self) -> bool | None:
        """Return whether its process runs, by pid and start time, for a pid is given to others later.

        Blocks where the system has no `/proc`.

        Returns:
            `None` where that cannot be told: on another machine, or where the system does not say.
        """
        if self.host != platform.node():
            return None
        if sys.platform == "win32":
            return None  # `os.kill` would end the process there
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass  # another user's process, which may have been given the pid since
        started, state = _process(self.pid)
        if state in _DEAD:
            return False
        if started is None or self.start_time is None:
            return None
        return started == self.start_time


def _bounded(owner: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the first values, cut: they stand in a record of fixed size."""
    return {str(name)[:_NAME_CHARS]: _cut(value) for name, value in list(owner.items())[:_VALUES]}


def _cut(value: object) -> str | int:
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else "a huge number"
    return str(value)[:_VALUE_CHARS]


@functools.lru_cache(maxsize=1)
def _own_start_time(pid: int) -> int | str | None:
    return _process(pid)[0]


def _process(pid: int) -> tuple[int | str | None, str]:
    """Return when a process was started and its state, `None` and nothing where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return (_asked_of_ps(pid), "") if sys.platform not in {"linux", "win32"} else (None, "")
    # The name of the program stands second, in brackets, and may have blanks and brackets of its own.
    fields = text.rpartition(")")[2].split()
    try:
        return int(fields[19]), fields[0]  # proc(5): field 22 in ticks since the boot, field 3
    except (IndexError, ValueError):
        return None, ""


def _asked_of_ps(pid: int) -> str | None:
    command = ["ps", "-p", str(pid), "-o", "lstart="]
    try:
        done = subprocess.run(  # noqa: S603 - a number is all that is put in
            command, capture_output=True, text=True, timeout=_PS_TIMEOUT_S, check=False, env={"LC_ALL": "C", **_path()}
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _path() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]} if "PATH" in os.environ else {}
