"""System calls of ctxkit's stores that fail: the n-th one, once or from then on."""

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

import ctxkit

CALLS = (
    *("open", "close", "write", "pwrite", "pread", "ftruncate", "fdatasync", "fsync", "fstat", "fchmod", "stat"),
    *("link", "unlink", "replace", "rename", "mkdir", "rmdir", "scandir"),
)
SHORT = 0
"""In place of an error: writes and reads do a part of what they were asked for, and say so."""
HANG = -1
"""In place of an error: a call does not come back until `stop`."""
FAULTS = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "EROFS")} | {"short": SHORT}
FAILURES = [
    pytest.param((fault, for_ever), id=f"{fault}-{'for-ever' if for_ever else 'once'}")
    for fault in FAULTS
    for for_ever in (False, True)
]

_STORES = tuple(f"{Path(ctxkit.__file__).parent / room}{os.sep}" for room in ("offload", "sessions"))
_BETWEEN = ("pathlib.py", "shutil.py", "contextlib.py", "os.py")
"""Modules of the standard library through which a store may make a call."""


class Watches(Protocol):
    """Is told of each call of a store."""

    def saw(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Take in a call that was made; `result` is an `OSError` where it failed."""
        ...


class FaultyCalls:
    """Stands between the stores and the system, and lets through what is not to fail.

    Args:
        monkeypatch: Takes the place of the functions of `os` and `fcntl`.
        watch: Is told of each call, whether it fails or not.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, watch: Watches | None = None) -> None:
        self.count = 0
        """Calls since `fail`."""
        self.failed: list[str] = []
        """Names of those that failed."""
        self._watch = watch
        self._is_due: Callable[[str, int], bool] = lambda _name, _number: False
        self._fault = SHORT
        self._gate = threading.Event()
        for name in CALLS:
            monkeypatch.setattr(os, name, self._between(name, getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self._between("flock", fcntl.flock))

    def fail(self, number: int, fault: int, *, for_ever: bool) -> None:
        """Let the call with a number (1-based, from now on) fail, and with `for_ever` all after it."""
        self.count, self.failed, self._fault = 0, [], fault
        self._is_due = lambda _name, at: at == number or (for_ever and at > number)

    def fail_all(self, *names: str, fault: int, after: int = 0) -> None:
        """Let every call of some functions fail, but for the first `after` of them."""
        self.count, self.failed, self._fault = 0, [], fault
        seen = count(1)
        self._gate.clear()
        self._is_due = lambda name, _at: name in names and next(seen) > after

    def stop(self) -> None:
        """Let no call fail any more, and those that hang come back."""
        self._is_due = lambda _name, _number: False
        self._gate.set()

    def _between(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _is_of_a_store():
                return real(*args, **kwargs)
            self.count += 1
            is_due = self._is_due(name, self.count)
            try:
                result = self._fail(name, real, args, kwargs) if is_due else real(*args, **kwargs)
            except OSError as exc:
                self._tell(name, args, kwargs, exc)
                raise
            self._tell(name, args, kwargs, result)
            return result

        return call

    def _fail(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.failed.append(name)
        if self._fault == HANG:
            self._gate.wait()
            return real(*args, **kwargs)
        if self._fault == SHORT:
            if name in {"write", "pwrite"}:
                args = (args[0], bytes(args[1])[: len(args[1]) // 3 + 1], *args[2:])
            elif name == "pread":
                args = (args[0], args[1] // 3 + 1, *args[2:])
            return real(*args, **kwargs)
        if name == "close":
            real(*args)  # Linux closes the descriptor whatever it says
        raise OSError(self._fault, os.strerror(self._fault))

    def _tell(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._watch is not None:
            self._watch.saw(name, args, kwargs, result)


def open_descriptors() -> set[tuple[str, str]]:
    """Return what this process has open, by number and name."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add((link.name, str(link.readlink())))
        except FileNotFoundError:
            continue  # the one with which the directory is read
    return found


def _is_of_a_store() -> bool:
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_STORES)
