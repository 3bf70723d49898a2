"""The daily files `memory/YYYY-MM-DD.md`: text for people and `grep`, to which each entry is appended durably and once."""

import asyncio
import os
from pathlib import Path
from typing import Final

from ctxkit.errors import StoreWriteError
from ctxkit.memory.entry import FOLDER, Flushed, end_mark, section
from ctxkit.offload.directory import Directory, read_at, sync_file, write_all
from ctxkit.offload.locks.lock import locked

_READ_BYTES: Final = 1 << 20
_LOCK_TIMEOUT_S: Final = 10.0


class DailyFiles:
    """The daily files of one directory; any number of processes may append to them, and people may edit them.

    The files and their directory are private to their owner, and what is no plain file is not written through.

    Args:
        root: The directory above `memory/`, made at the first entry.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()

    async def append(self, entry: Flushed, key: str) -> bool:
        """Append an entry to the file of its day, and return whether it was not there yet.

        What has returned survives `kill -9` and a power cut. Asked again with the same entry and key, whether it was
        written whole, in part or not at all, the file has it once.

        Args:
            entry: The entry.
            key: What tells it from others.

        Raises:
            StoreWriteError: It could not be written.
        """
        try:
            return await asyncio.to_thread(self._append, Path(entry.path).name, section(entry, key), key)
        except OSError as exc:
            where = str(self.root / entry.path)
            msg = f"The entry {key!r} could not be appended to {where!r} ({exc}); it is tried again at the next start."
            raise StoreWriteError(msg) from exc

    def _append(self, name: str, data: bytes, key: str) -> bool:
        with (
            Directory.at(self.root, create=True) as root,
            root.child(FOLDER, create=True) as folder,
            locked(folder, timeout_s=_LOCK_TIMEOUT_S),
        ):
            descriptor = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                there = _content(descriptor)
                is_new = end_mark(key).encode() not in there
                if is_new:
                    write_all(descriptor, _rest(there, data))
                sync_file(descriptor)  # in any case: who wrote it may have died before it did
            finally:
                os.close(descriptor)
            folder.sync()
        return is_new


def _content(descriptor: int) -> bytes:
    found = bytearray()
    while piece := read_at(descriptor, _READ_BYTES, len(found)):
        found += piece
    return bytes(found)


def _rest(there: bytes, data: bytes) -> bytes:
    """Return what is missing of a section behind a file's end, where a writer may have died within it."""
    longest = min(len(there), len(data) - 1)
    # The last byte is compared first: of most lengths no copy is made.
    torn = next((n for n in range(longest, 0, -1) if there[-1] == data[n - 1] and there.endswith(data[:n])), 0)
    if torn:
        return data[torn:]
    blank = b"" if not there or there.endswith(b"\n\n") else b"\n" if there.endswith(b"\n") else b"\n\n"
    return blank + data
