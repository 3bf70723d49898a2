"""What a power cut would take at this very moment: a model of what has reached the disk, strict but for one thing.

Data reach it by a sync of the file, names by a sync of the directory. After a sync that failed, the data that it was for
are lost while the system still shows them and calls them clean, as Linux does: only written again they can be saved.
That a name was removed or replaced is taken to reach it at once.
"""

import os
import stat
from pathlib import Path
from typing import Any

_fstat, _stat = os.fstat, os.stat  # of the system itself: no fault is for these

Identity = tuple[int, int]
Span = tuple[int, int]


class Power:
    """Takes in each call of a store, and says what is not on the disk."""

    def __init__(self) -> None:
        self._dirty: dict[Identity, list[Span]] = {}
        self._lost: dict[Identity, list[Span]] = {}
        self._names: set[tuple[Identity, str]] = set()

    def saw(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Take in a call; see `faulty_calls`."""
        if isinstance(result, OSError):
            if name in {"fsync", "fdatasync"}:
                file = _identity(_fstat(args[0]))
                self._lost.setdefault(file, []).extend(self._dirty.pop(file, []))
            return
        if name == "write":
            status = _fstat(args[0])
            self._write(_identity(status), status.st_size - result, status.st_size)
        elif name == "pwrite":
            self._write(_identity(_fstat(args[0])), args[2], args[2] + result)
        elif name == "ftruncate":
            self._cut(_identity(_fstat(args[0])), args[1])
        elif name in {"fsync", "fdatasync"}:
            self._sync(_fstat(args[0]))
        elif name == "open" and args[1] & os.O_CREAT and _fstat(result).st_size == 0:
            self._appear(args[0], kwargs.get("dir_fd"), is_new=True)
        elif name in {"link", "replace", "rename"}:
            self._appear(args[1], kwargs.get("dst_dir_fd"))
        elif name == "mkdir":
            self._appear(args[0], kwargs.get("dir_fd"), is_new=True)
        elif name in {"unlink", "rmdir"}:
            self._names.discard(_place(args[0], kwargs.get("dir_fd")))

    def would_take(self, *files: Path) -> list[str]:
        """Return what of these files, and of the way to them, is not on the disk."""
        taken = []
        for file in files:
            identity = _identity(_stat(file))
            if self._dirty.get(identity) or self._lost.get(identity):
                taken.append(f"the content of {file.name}")
            taken += [f"the name of {at.name}" for at in (file, *file.parents) if self._is_unsure(at)]
        return sorted(set(taken))

    def _is_unsure(self, path: Path) -> bool:
        return (_identity(_stat(path.parent)), path.name) in self._names

    def _write(self, file: Identity, start: int, end: int) -> None:
        if file in self._lost:
            self._lost[file] = [
                part
                for lost_start, lost_end in self._lost[file]
                for part in ((lost_start, min(lost_end, start)), (max(lost_start, end), lost_end))
                if part[0] < part[1]
            ]
        self._dirty.setdefault(file, []).append((start, end))

    def _cut(self, file: Identity, size: int) -> None:
        for spans in (self._dirty, self._lost):
            if file in spans:
                spans[file] = [(start, min(end, size)) for start, end in spans[file] if start < size]
        self._dirty.setdefault(file, []).append((size, size + 1))  # that it is so short

    def _sync(self, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            self._names = {(folder, name) for folder, name in self._names if folder != _identity(status)}
        else:
            self._dirty.pop(_identity(status), None)

    def _appear(self, name: str, folder: int | None, *, is_new: bool = False) -> None:
        place = _place(name, folder)
        if is_new:
            identity = _identity(_stat(name, dir_fd=folder, follow_symlinks=False))
            for spans in (self._dirty, self._lost):
                spans.pop(identity, None)  # numbers of files come again
            self._names = {(above, below) for above, below in self._names if above != identity}
        self._names.add(place)


def _place(name: str, folder: int | None) -> tuple[Identity, str]:
    path = Path(name)
    return _identity(_stat(path.parent) if folder is None else _fstat(folder)), path.name


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
