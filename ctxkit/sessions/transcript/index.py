"""The index of a directory of transcripts, `sessions.json`: a cache of what the files of the sessions say themselves.

    {
    "3f2a":{"sessionId":"3f2a","sessionFile":"...","updatedAt":1708000000000,...,"stamp":"a1-17f3-32c"},
    ...
    }

It may be lost, empty, broken or old at any time: what it says of a session counts only while the session's file has
the stamp that stands with it, and is read from the file otherwise. Everything here blocks; what writes is called under
the lock of the directory.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ctxkit.offload.directory import Directory
from ctxkit.offload.names import fsname
from ctxkit.sessions.rows import row_from_json, row_to_json
from ctxkit.sessions.store import SessionEntry
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript import state_file
from ctxkit.sessions.transcript.state_file import read_bytes

logger = logging.getLogger("ctxkit.sessions")

INDEX_NAME: Final = "sessions.json"
BACKUP: Final = f"{INDEX_NAME}.bak."
"""How the name of a rotated index begins; milliseconds since the epoch follow."""

CACHE_S: Final = 45.0
"""Seconds for which the content of an unchanged index is not read again; the seed's."""

_TRIES: Final = 5
_PAUSE_S: Final = 0.05
"""Between two tries: on Windows a file that somebody reads cannot be replaced; both the seed's."""

_STEM: Final = re.compile(r"[a-z0-9][a-z0-9_~-]{0,99}")
_BACKUP_NAME: Final = re.compile(re.escape(BACKUP) + r"([0-9]{1,20})")


@dataclass(frozen=True)
class _Indexed:
    row: SessionEntry
    stamp: str
    line: bytes


class Index:
    """Reads and writes the index of one directory.

    Args:
        read_row: Reads the row of a session from its files, by the name that they have in common; `None` where there
            is no session of that name.
        monotonic: Seconds, for the age of the cache.
    """

    def __init__(
        self,
        read_row: Callable[[Directory, str], SessionEntry | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_row = read_row
        self._monotonic = monotonic
        self._cached: dict[str, _Indexed] = {}
        self._version = ""
        self._read_at = 0.0

    def rows(self, folder: Directory) -> tuple[list[SessionEntry], bool]:
        """Return the rows of all sessions that have files, and whether the index says the same; without the lock."""
        known = self._read(folder)
        found: dict[str, _Indexed] = {}
        for stem, now in _stamps(folder).items():
            old = known.get(stem)
            if old is not None and old.stamp == now:
                found[stem] = old
            elif (row := self._read_row(folder, stem)) is not None:
                found[stem] = _indexed(row, now)
        is_current = found == known and folder.status(INDEX_NAME) is not None
        self._cached = found
        return [one.row for one in found.values()], is_current

    def put(self, folder: Directory, stem: str, row: SessionEntry | None) -> None:
        """Write what is known of one session now; `None` where it is gone. That it cannot be written is no error."""
        rows = dict(self._read(folder))
        now = _stamp_now(folder, stem)
        if row is None or not now:
            rows.pop(stem, None)
        else:
            rows[stem] = _indexed(row, now)
        self._cached = rows
        self.write(folder)

    def write(self, folder: Directory) -> None:
        """Write what was found last. That it cannot be written is no error: it is found again."""
        data = b"{\n" + b",\n".join(one.line for one in self._cached.values()) + b"\n}\n"
        for attempt in range(_TRIES):
            try:
                folder.replace(INDEX_NAME, data)
            except OSError as exc:
                if attempt == _TRIES - 1:
                    logger.warning("The index of %r could not be written: %s", str(folder.path), exc)
                    self._version = ""
                    return
                time.sleep(_PAUSE_S)
            else:
                self._version = stamp(folder.status(INDEX_NAME))
                self._read_at = self._monotonic()
                return

    def rotate(self, folder: Directory, *, now: float, keep: int) -> None:
        """Set the index aside, with at most `keep` that were set aside before, and write it anew from the files.

        Args:
            folder: The directory.
            now: Seconds since the epoch, for the name of what is set aside.
            keep: Files that stay, this one included.
        """
        folder.replace(f"{BACKUP}{round(now * 1000)}", read_bytes(folder, INDEX_NAME))
        backups = [int(match[1]) for name in folder.names() if (match := _BACKUP_NAME.fullmatch(name))]
        for time_ms in sorted(backups)[: max(0, len(backups) - keep)]:
            folder.unlink(f"{BACKUP}{time_ms}")
        self._version = ""
        self._cached = {}
        folder.unlink(INDEX_NAME)
        self.rows(folder)
        self.write(folder)

    def _read(self, folder: Directory) -> Mapping[str, _Indexed]:
        version = stamp(folder.status(INDEX_NAME))
        if version and version == self._version and self._monotonic() - self._read_at < CACHE_S:
            return self._cached
        try:
            self._cached = dict(_parse(read_bytes(folder, INDEX_NAME)))
        except (OSError, ValueError, RecursionError) as exc:
            if not isinstance(exc, FileNotFoundError):
                logger.warning("The index of %r is made anew from the sessions' files: %s", str(folder.path), exc)
            self._cached = {}
        self._version, self._read_at = version, self._monotonic()
        return self._cached


def stem_of(name: str) -> str | None:
    """Return the name that the files of a session have in common; `None` for what is no state and no transcript."""
    for suffix in (state_file.SUFFIX, transcript_file.SUFFIX):
        if name.endswith(suffix) and _STEM.fullmatch(stem := name.removesuffix(suffix)):
            return stem
    return None


def _parse(data: bytes) -> Iterator[tuple[str, _Indexed]]:
    """Yield the rows by the names of their files, line by line, so that a long index holds nobody up."""
    lines = data.removesuffix(b"\n").split(b"\n")
    if len(lines) < 2 or lines[0] != b"{" or lines[-1] != b"}":  # noqa: PLR2004 - its brackets stand on lines of their own
        msg = f"it is empty or torn, {len(data)} bytes"
        raise ValueError(msg)
    for line in filter(None, lines[1:-1]):
        bare = line.removesuffix(b",")
        for raw in json.loads(b"{" + bare + b"}").values():
            row = row_from_json(raw)
            yield fsname(row.session_id), _Indexed(row, str(raw.get("stamp")), bare)


def _indexed(row: SessionEntry, now: str) -> _Indexed:
    raw = row_to_json(row) | {"stamp": now}
    line = f"{json.dumps(row.session_id)}:{json.dumps(raw, separators=(',', ':'))}"
    return _Indexed(row, now, line.encode())


def _stamps(folder: Directory) -> dict[str, str]:
    """Return the stamp of each session by the name of its files: of its state, or of its transcript where it has none."""
    found: dict[str, str] = {}
    for name, status in folder.files():
        stem = stem_of(name)
        if stem is not None and (name.endswith(state_file.SUFFIX) or stem not in found):
            found[stem] = stamp(status)
    return found


def _stamp_now(folder: Directory, stem: str) -> str:
    state, transcript = (folder.status(stem + suffix) for suffix in (state_file.SUFFIX, transcript_file.SUFFIX))
    return stamp(state) or stamp(transcript)


def stamp(status: os.stat_result | None) -> str:
    """Return what changes whenever a file does; empty where there is none."""
    return "" if status is None else f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
