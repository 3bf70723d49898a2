"""Repairs one file: finds out what it is, takes its session's lock, and keeps the original."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxkit.errors import NewerFormatError, RecordNotFoundError, StoreReadError, StoreWriteError
from ctxkit.offload.directory import Directory, read_at
from ctxkit.offload.locks.file_lease import take
from ctxkit.offload.locks.lock import LOCK_NAME, locked
from ctxkit.sessions.encoding import decode_state, encode_piece, encode_state
from ctxkit.sessions.repair.findings import FileReport, Findings
from ctxkit.sessions.repair.log import check_log, is_log, mend_log
from ctxkit.sessions.repair.rewrite import opened, rewrite
from ctxkit.sessions.repair.state import repair_state
from ctxkit.sessions.repair.transcript import check_transcript, mend_transcript
from ctxkit.sessions.transcript.file import SUFFIX
from ctxkit.sessions.transcript.state_file import SUFFIX as STATE_SUFFIX
from ctxkit.sessions.transcript.state_file import VERSION

if TYPE_CHECKING:
    from ctxkit.port import Codec

_STATE_BYTES: Final = 256 << 20
"""A larger state is not read: as Python objects it would take many times that."""
_WRITER_S: Final = 10.0
"""Seconds to wait for a store that is writing: a save takes far less."""
_TRANSCRIPTS: Final = ("agents", "sessions")
"""Transcripts stand in `agents/{agent}/sessions/`."""


def repair_file(
    path: str | os.PathLike[str], *, codec: "Codec", dry_run: bool = False, lock_timeout_s: float = 0.0
) -> FileReport:
    """Repair a session's transcript, a saved state or a store's log; blocks, so call it in a thread.

    What is dropped is stored in `{name}.dropped-{time}` first, then the original is copied to `{name}.bak-{pid}-{time}`,
    then the new file takes its place: whenever the process or the machine dies, one of them is there, whole. A log is
    mended in place. Links are not followed.

    Args:
        path: The file.
        codec: Reads and builds messages.
        dry_run: Only say what is wrong: nothing is written, and no lock is taken.
        lock_timeout_s: Seconds to wait for whoever holds the session.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
        SessionLockedError: Somebody holds its session.
        RecordNotFoundError: There is no such file.
        StoreReadError: It cannot be read, or is a link, a pipe or a directory.
        StoreWriteError: It cannot be written, or was changed meanwhile.
    """
    path = Path(os.path.normpath(Path(path).absolute()))  # `resolve()` would follow links
    try:
        with Directory.at(path.parent, create=False) as folder:
            found = _check(folder, path, codec)
            if dry_run or found.outcome != "repairable":
                return found
            try:
                return _mend(folder, found, codec, lock_timeout_s)
            except OSError as exc:
                msg = f"{str(path)!r} cannot be repaired ({exc.strerror or exc}): free space or check permissions."
                raise StoreWriteError(msg) from exc
    except FileNotFoundError as exc:
        msg = f"There is no file {str(path)!r}."
        raise RecordNotFoundError(msg) from exc
    except OSError as exc:
        what = (
            "a link, a pipe or a directory"
            if exc.errno in {errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO}
            else exc
        )
        msg = f"{str(path)!r} cannot be read ({what}): name a plain file."
        raise StoreReadError(msg) from exc


def session_files(root: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files under a directory that may be repaired, in order; links are not followed, hidden names left out.

    Args:
        root: The directory.
    """
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith((SUFFIX, STATE_SUFFIX)) and not name.startswith(".") and not path.is_symlink():
                yield path


def _check(folder: Directory, path: Path, codec: "Codec") -> FileReport:
    is_one = (path.parent.parent.parent.name, path.parent.name) == _TRANSCRIPTS
    if is_log(path.name) and not is_one:  # a session may be named `context`
        return check_log(folder, path.name)
    if path.suffix == SUFFIX:
        return check_transcript(folder, path.name, is_one=is_one)
    if path.suffix == ".json":
        return _state(folder, path, codec, write=False)
    return FileReport(path=path, kind="other", outcome="failed", findings=("no transcript, state or log of a session",))


def _mend(folder: Directory, found: FileReport, codec: "Codec", lock_timeout_s: float) -> FileReport:
    if found.kind == "log":
        return mend_log(folder, found.path.name)
    lease = take(folder, _lock_name(found.path.name), owner={"owner": "ctxkit repair"}, timeout_s=lock_timeout_s)
    try:
        with _writing(folder):
            if found.kind == "transcript":
                return mend_transcript(folder, found.path.name)
            return _state(folder, found.path, codec, write=True)
    finally:
        lease.release()


@contextmanager
def _writing(folder: Directory) -> Iterator[None]:
    """Keep a session store that writes in the directory waiting, where there is one."""
    if folder.status(LOCK_NAME) is None:
        yield
        return
    with locked(folder, timeout_s=_WRITER_S):
        yield


def _lock_name(name: str) -> str:
    """Return the file whose lock makes one owner of a session."""
    stem = name.removesuffix(STATE_SUFFIX)
    return f"{stem}{SUFFIX}.lock" if stem != name else f"{name}.lock"


def _state(folder: Directory, path: Path, codec: "Codec", *, write: bool) -> FileReport:
    """Check or repair a saved state."""
    with opened(folder, path.name) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > _STATE_BYTES:
            said = f"{size:,} bytes are more than the {_STATE_BYTES:,} that are read: repair it by `repair_state`"
            return FileReport(path=path, kind="state", outcome="failed", findings=(said,))
        try:
            state = decode_state(_read(descriptor, size))
        except ValueError as exc:
            return _unreadable(folder, path, exc)
        if "context" not in state:
            said = "no saved state: it has no context"
            return FileReport(path=path, kind="other", outcome="failed", findings=(said,))
        _refuse_newer(state, path)
        repaired = repair_state(state, codec)
        findings = Findings()
        for repair in repaired.repairs:
            findings.add(f"{repair.kind}: {repair.what}")
        report = FileReport(path=path, kind="state", outcome="sound", findings=findings.said())
        if not findings or not write:
            return replace(report, outcome="repairable") if findings else report
        try:
            new = encode_state(repaired.state)
            dropped = [encode_piece(item) + b"\n" for item in repaired.dropped]
        except ValueError as exc:
            return replace(report, outcome="failed", findings=(f"it holds what is no plain JSON ({exc})",))
        kept = rewrite(folder, path.name, descriptor, [new], dropped=dropped)
    aside = () if kept.dropped is None else (kept.dropped,)
    return replace(report, outcome="repaired", backup=kept.backup, dropped=aside)


def _refuse_newer(state: Mapping[str, Any], path: Path) -> None:
    extra = state.get("_ctxkit")
    version = extra.get("version") if isinstance(extra, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        msg = (
            f"{str(path)!r} is a saved state of format {version}, and this ctxkit knows {VERSION}: update ctxkit; "
            "the file is left as it is."
        )
        raise NewerFormatError(msg)


def _unreadable(folder: Directory, path: Path, exc: ValueError) -> FileReport:
    """Say what can be done about a state that is no JSON."""
    transcript = f"{path.name.removesuffix(STATE_SUFFIX)}{SUFFIX}"
    has_transcript = path.name.endswith(STATE_SUFFIX) and folder.status(transcript) is not None
    remedy = "it is built anew from the transcript when the session is loaded" if has_transcript else "restore a backup"
    return FileReport(path=path, kind="state", outcome="failed", findings=(f"no JSON ({str(exc)[:200]}): {remedy}",))


def _read(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (chunk := read_at(descriptor, 1 << 20, len(data))):
        data += chunk
    return bytes(data)
