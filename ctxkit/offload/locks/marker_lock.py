"""What stands for the kernel's lock on a file system that has none: a marker file that only one owner can create.

A marker survives the death of its owner, so the next one looks whether the owner still runs, by pid and start time.
Two who find the same dead owner must not both take its place: markers are numbered by epoch, the place of a dead owner
is taken by creating the next number, and a marker counts only if no epoch of its number was recorded before.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Self

from ctxkit.offload.directory import Directory, read_at, sync_file, write_all
from ctxkit.offload.locks.holder import Holder
from ctxkit.offload.locks.lease_file import decode, encode

_TORN_S: Final = 60.0
"""A marker without a readable record belongs to nobody at this age: writing it takes milliseconds."""
_RECORD_BYTES: Final = 1024


class MarkerLock:
    """A marker file that this process has created.

    Args:
        directory: Where it is.
        name: Name of the lease file that it stands beside.
        holder: Who holds the lease; its epoch is the marker's number.
        dead: Numbers of the markers of dead owners.
    """

    def __init__(self, directory: Directory, name: str, holder: Holder, *, dead: range) -> None:
        self.holder = holder
        self._folder = directory.path
        self._name = name
        self._dead = dead
        self._pid = os.getpid()

    @classmethod
    def try_take(
        cls, directory: Directory, name: str, holder: Holder, *, last_epoch: Callable[[], int]
    ) -> Self | Holder | None:
        """Create the next marker unless an owner lives.

        Args:
            directory: Where the lease file is.
            name: Its name.
            holder: Who asks; the epoch is set here.
            last_epoch: Returns the last epoch that was recorded.

        Returns:
            The marker, or who holds the lease; `None` where that one has not written its name yet.
        """
        last = last_epoch()
        number = last
        while True:
            is_there, found = _look(directory, _marker(name, number))
            if is_there:
                return found
            if number > last and is_there is None:
                break
            number += 1
        holder = replace(holder, epoch=number)
        try:
            descriptor = directory.open(_marker(name, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return None
        marker = cls(directory, name, holder, dead=range(last, number))
        try:
            try:
                write_all(descriptor, encode(holder, room=_RECORD_BYTES))
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            if last_epoch() < number:
                return marker
        except BaseException:
            marker.close()
            raise
        marker.close()  # others have held it under this number since we looked
        return None

    def settle(self) -> None:
        """Remove the markers of dead owners; call it when the epoch is recorded."""
        self._remove(*self._dead)

    def close(self) -> None:
        """Remove the marker; a second time, or in a forked child, does nothing."""
        if self._pid == os.getpid():
            self._pid = -1
            self._remove(self.holder.epoch)

    def _remove(self, *numbers: int) -> None:
        try:
            with Directory.at(self._folder, create=False) as folder:
                for number in numbers:
                    folder.remove_tree(_marker(self._name, number))
        except OSError:
            return  # the whole folder is gone, or the marker stays and is found to be of a dead owner


def _marker(name: str, number: int) -> str:
    return f"{name}.{number}"


def _look(directory: Directory, marker: str) -> tuple[bool | None, Holder | None]:
    """Return whether the owner of a marker may live, `None` where there is no marker, and who it is."""
    try:
        descriptor = directory.open(marker, os.O_RDONLY)
    except FileNotFoundError:
        return None, None
    try:
        holder = decode(read_at(descriptor, _RECORD_BYTES, 0))
        if holder is None:
            return time.time() - os.fstat(descriptor).st_mtime < _TORN_S, None
    finally:
        os.close(descriptor)
    return holder.is_alive() is not False, holder
