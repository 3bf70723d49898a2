"""The fence of a session on files: the highest epoch, in a file that is read under the lock of each write."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ctxkit.errors import StaleOwnerError, StoreWriteError
from ctxkit.offload.directory import Directory, read_at
from ctxkit.offload.locks.lock import LOCK_NAME, locked

_NAME: Final = ".epoch"
_MOST_BYTES: Final = 1000


def refuse_stale(session_id: str, epoch: int, highest: int) -> None:
    """Refuse an owner that has lost its session.

    Raises:
        StaleOwnerError: The highest epoch is above the owner's.
    """
    if highest > epoch:
        msg = (
            f"Session {session_id[:100]!r} was taken over: its owner has epoch {highest}, and this one has {epoch}: "
            f"attach the session anew to go on."
        )
        raise StaleOwnerError(msg)


@contextmanager
def fenced(folder: Directory, session_id: str, epoch: int | None, *, timeout_s: float) -> Iterator[None]:
    """Keep others from fencing a session while something is written to it as one owner; `None` waits for nobody.

    Raises:
        StaleOwnerError: A higher epoch has been fenced.
        TimeoutError: Another writer held the lock all the time.
    """
    if epoch is None:
        yield
        return
    with locked(folder, timeout_s=timeout_s):
        refuse_stale(session_id, epoch, highest_epoch(folder))
        yield


def raise_epoch(folder: Directory, session_id: str, epoch: int) -> None:
    """Fence an epoch durably; call it under the lock.

    Raises:
        StaleOwnerError: A higher epoch has been fenced already.
    """
    highest = highest_epoch(folder)
    refuse_stale(session_id, epoch, highest)
    if highest < epoch:
        folder.replace(_NAME, json.dumps({"epoch": epoch}).encode())
    else:
        folder.sync()  # whoever fenced it may have been killed before that


def is_fenced(folder: Directory) -> bool:
    """Tell whether an epoch was ever fenced."""
    status = folder.status(_NAME)
    return status is not None and stat.S_ISREG(status.st_mode)


def empty(folder: Directory) -> None:
    """Remove all that is in a session's directory but its fence, and its lock, which is held; call it under that lock."""
    for name in folder.names():
        status = None if name in {_NAME, LOCK_NAME} else folder.status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            folder.remove_tree(name)
        elif status is not None:
            folder.unlink(name)
    folder.sync()


def highest_epoch(folder: Directory) -> int:
    """Return the highest epoch that was fenced, 0 where there is none; what it means is sure only under the lock."""
    try:
        descriptor = folder.open(_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        epoch = json.loads(read_at(descriptor, _MOST_BYTES, 0))["epoch"]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise _no_fence(folder) from exc
    finally:
        os.close(descriptor)
    if not isinstance(epoch, int):
        raise _no_fence(folder)
    return epoch


def _no_fence(folder: Directory) -> StoreWriteError:
    msg = f"{str(folder.path / _NAME)!r} is no fence: remove it when no other owner of the session runs."
    return StoreWriteError(msg)
