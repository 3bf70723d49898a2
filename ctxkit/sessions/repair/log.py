"""Mends the log of a store in place: nothing of it is rewritten, for other writers have it open."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxkit.errors import SessionLockedError
from ctxkit.offload.directory import Directory
from ctxkit.offload.files.limits import FileLimits, Usage
from ctxkit.offload.files.log import LogSettings, SessionLog
from ctxkit.offload.files.log_index import LogIndex, segment_number
from ctxkit.sessions.repair.findings import FileReport, Findings
from ctxkit.sessions.repair.rewrite import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_LIMITS: Final = FileLimits(record_bytes=None, segment_bytes=None, session_bytes=None, workspace_bytes=None)


def is_log(name: str) -> bool:
    """Return whether a file has the name of a store's log."""
    return segment_number(name) is not None


def check_log(folder: Directory, name: str) -> FileReport:
    """Return what is wrong with a file of a log, without changing it."""
    findings = Findings()
    index = LogIndex()
    with opened(folder, name) as descriptor:
        index.begin(name, os.fstat(descriptor))
        for damage in index.catch_up(descriptor):
            findings.add(f"byte {damage.offset}: {damage.size} bytes that are no record")
    segment = index.segments[-1]
    if segment.seen > segment.end:
        findings.add(f"byte {segment.end}: {segment.seen - segment.end} bytes at the end without a line break")
    return FileReport(
        path=folder.path / name,
        kind="log",
        outcome="repairable" if findings else "sound",
        findings=findings.said(),
    )


def mend_log(folder: Directory, name: str) -> FileReport:
    """Blank the bad lines of a log and cut or end its last one, as its store does at the next write; copies come first.

    Raises:
        SessionLockedError: Somebody is writing it at this moment.
    """
    found = check_log(folder, name)
    if found.outcome == "sound":
        return found
    before = set(folder.names())
    log = SessionLog(folder.path.name, folder.path.name, _Opener(folder.path), settings=_settings())
    try:
        if not log.commit([]):
            msg = f"{str(found.path)!r} is being written at this moment: call again, or stop who writes it."
            raise SessionLockedError(msg)
    finally:
        log.close()
    is_sound = check_log(folder, name).outcome == "sound"
    aside = sorted(new for new in set(folder.names()) - before if new.startswith(f"{name}."))
    return FileReport(
        path=found.path,
        kind="log",
        outcome="repaired" if is_sound else "failed",
        findings=found.findings,
        dropped=tuple(folder.path / new for new in aside),
    )


def _settings() -> LogSettings:
    usage = Usage(_NO_LIMITS, lambda _: 0)
    return LogSettings(fsync="always", limits=_NO_LIMITS, usage=usage, settle=lambda _: None)


class _Opener:
    """Opens the directory of a log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def __call__(self, *, create: bool) -> "Iterator[Directory]":  # noqa: ARG002 - it is there; mending makes none
        with Directory.at(self._path, create=False) as folder:
            yield folder
