"""One file read in pieces, from any thread, by position."""

import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ctxkit.offload.directory import Directory, read_at

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Reading(io.RawIOBase):
    """A range of a file, opened at the first read, closed at its end or, at any moment, by `close`.

    A reader that is cancelled leaves at once, while its thread still reads: under the lock, the descriptor is not given
    to another file meanwhile. Nothing is moved but this object's own position.

    Args:
        open_folder: Opens its directory.
        name: The file in it.
        offset: First byte, 0-based.
        length: Most bytes; `None` for all.
    """

    def __init__(
        self,
        open_folder: Callable[[], AbstractContextManager[Directory]],
        name: str,
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> None:
        self._open_folder = open_folder
        self._name = name
        self._offset = offset
        self._left = sys.maxsize if length is None else max(0, length)
        self._descriptor: int | None = None
        self._guard = threading.Lock()

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read what comes next; 0 bytes at the end.

        Raises:
            OSError: The file cannot be opened or read.
        """
        into = memoryview(buffer).cast("B")
        with self._guard:
            if self.closed:
                return 0
            try:
                if self._descriptor is None:
                    with self._open_folder() as folder:
                        self._descriptor = folder.open(self._name, os.O_RDONLY)
                wanted = min(len(into), self._left)
                chunk = read_at(self._descriptor, wanted, self._offset)
            except BaseException:
                self._close()
                raise
            self._offset += len(chunk)
            self._left -= len(chunk)
            if (into and not chunk) or not self._left:  # fewer bytes than were asked for are not yet the end
                self._close()
        into[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close the file, once nobody reads from it."""
        with self._guard:
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        super().close()
        if descriptor is not None:
            os.close(descriptor)
