"""Calls of the system that fail: the n-th one, once or for ever."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import aiofiles.threadpool

FULL = bool(os.environ.get("CTXKIT_CRASH_FULL"))
"""Whether the tests run in their long form."""

CALLS = {
    "open": errno.EMFILE,
    "write": errno.ENOSPC,
    "pwrite": errno.EDQUOT,
    "fdatasync": errno.EIO,
    "fsync": errno.EIO,
    "link": errno.EMLINK,
    "mkdir": errno.EROFS,
    "ftruncate": errno.EIO,
    "pread": errno.EIO,
    "read": errno.EIO,
    "fstat": errno.EIO,
    "lseek": errno.EIO,
}
"""Functions of `os` and how each of them may fail."""


@contextmanager
def failing(module: Any, name: str, code: int, *, nth: int = 0, forever: bool = False) -> Iterator[None]:
    """Let the n-th call of a function fail, 0-based, and all later ones too where `forever`."""
    real = getattr(module, name)
    count = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        at = count
        count += 1
        if at == nth or (forever and at > nth):
            raise OSError(code, os.strerror(code))
        return real(*args, **kwargs)

    with mock.patch.object(module, name, call):
        yield


def disk_failures() -> Sequence[tuple[str, AbstractContextManager[None]]]:
    """Return what may go wrong with files: each function of `os`, at different calls, once and for ever."""
    return [
        (f"os.{name} {nth} {'and all later' if forever else 'once'}", failing(os, name, code, nth=nth, forever=forever))
        for name, code in CALLS.items()
        if hasattr(os, name)
        for nth in (range(40) if FULL else (0, 1, 2, 5))
        for forever in (False, True)
    ]


def read_failures() -> Sequence[tuple[str, AbstractContextManager[None]]]:
    """Return what may go wrong when a file is opened through aiofiles."""
    codes = (errno.EMFILE, errno.EIO)
    return [(errno.errorcode[code], failing(aiofiles.threadpool, "sync_open", code)) for code in codes]
