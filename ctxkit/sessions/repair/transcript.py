"""Repairs a session's transcript: a header line, then a message of AgentScope a line.

Lines that are no JSON objects are dropped, and the header is put right; what the messages say is left to the repair of
contexts, for a transcript may hold a message several times, as it grew.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ctxkit.errors import NewerFormatError
from ctxkit.offload.directory import Directory, read_at
from ctxkit.sessions.repair.findings import FileReport, Findings
from ctxkit.sessions.repair.jsonl import Line, Verdict, judge, lines_of
from ctxkit.sessions.repair.rewrite import Piece, opened, rewrite
from ctxkit.sessions.transcript.file import SUFFIX, VERSION

_FILLER: Final = b"\0"


@dataclass
class _Scan:
    """What stands in a transcript."""

    header: Verdict | None = None
    kept: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of good lines, line breaks at their ends left out."""
    bad: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of lines that are dropped."""
    findings: Findings = field(default_factory=Findings)
    has_messages: bool = False
    wanted_header: dict[str, Any] = field(default_factory=dict)
    is_header_wrong: bool = False

    def keep(self, start: int, end: int) -> None:
        """Keep a line; neighbours become one range."""
        if self.kept and self.kept[-1][1] + 1 == start:
            self.kept[-1] = (self.kept[-1][0], end)
        else:
            self.kept.append((start, end))

    def drop(self, line: Line, why: str) -> None:
        """Drop a line."""
        end = line.start + line.size + line.is_ended
        if self.bad and self.bad[-1][1] == line.start:
            self.bad[-1] = (self.bad[-1][0], end)
        else:
            self.bad.append((line.start, end))
        self.findings.add(f"line {line.number}: {why}; dropped")


def check_transcript(folder: Directory, name: str, *, is_one: bool) -> FileReport:
    """Return what is wrong with a transcript, without changing it.

    Args:
        folder: The directory of the file.
        name: The file.
        is_one: It is where transcripts are, so it is one whatever stands in it.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
    """
    with opened(folder, name) as descriptor:
        scan = _scan(descriptor, folder, name)
    is_one = is_one or scan.has_messages or scan.header is not None
    return FileReport(
        path=folder.path / name,
        kind="transcript" if is_one else "other",
        outcome="repairable" if scan.findings and is_one else "sound",
        findings=scan.findings.said() if is_one else (),
    )


def mend_transcript(folder: Directory, name: str) -> FileReport:
    """Write a transcript anew without what is wrong with it; the lock of its session must be held.

    Raises:
        NewerFormatError: A newer ctxkit wrote it.
        StoreWriteError: It was changed meanwhile.
    """
    with opened(folder, name) as descriptor:
        scan = _scan(descriptor, folder, name)
        path = folder.path / name
        if not scan.findings:
            return FileReport(path=path, kind="transcript", outcome="sound")
        kept = rewrite(folder, name, descriptor, _pieces(scan), dropped=_dropped(descriptor, scan))
    return FileReport(
        path=path,
        kind="transcript",
        outcome="repaired",
        findings=scan.findings.said(),
        backup=kept.backup,
        dropped=() if kept.dropped is None else (kept.dropped,),
    )


def _scan(descriptor: int, folder: Directory, name: str) -> _Scan:
    scan = _Scan()
    last: Line | None = None
    for line in lines_of(descriptor):
        last = line
        verdict = judge(line)
        if verdict.kind == "bad":
            scan.drop(line, verdict.problem)
        elif verdict.kind == "object":
            _take(scan, line, verdict)
    if last is not None and not last.is_ended:
        scan.findings.add(f"line {last.number}: no line break at the end of the file; added")
    _settle_header(scan, folder, name, os.fstat(descriptor))
    return scan


def _take(scan: _Scan, line: Line, verdict: Verdict) -> None:
    """Take a line that is an object."""
    value = verdict.value or {}
    if value.get("type") == "session":
        if scan.header is not None:
            scan.drop(line, "a second header")
            return
        if scan.kept:
            scan.findings.add(f"line {line.number}: the header is not the first line; moved there")
        scan.header = verdict
        return
    if line.data.startswith(_FILLER) or line.data.endswith(_FILLER):
        scan.findings.add(f"line {line.number}: zeros beside a record; left out")
    scan.has_messages |= {"role", "content"} <= value.keys()
    scan.keep(verdict.start, verdict.end)


def _settle_header(scan: _Scan, folder: Directory, name: str, status: os.stat_result) -> None:
    """Decide what the header is to be."""
    found = (scan.header.value if scan.header else None) or {}
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        msg = (
            f"{str(folder.path / name)!r} is a transcript of version {version}, and this ctxkit knows {VERSION}: "
            "update ctxkit; the file is left as it is."
        )
        raise NewerFormatError(msg)
    wrong: dict[str, Any] = {}
    if version != VERSION or isinstance(version, bool):
        wrong["version"] = VERSION
    if not isinstance(found.get("id"), str) or not found["id"]:
        wrong["id"] = _id_beside(folder, name) or name.removesuffix(SUFFIX)
    if not isinstance(found.get("timestamp"), str):
        wrong["timestamp"] = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
    scan.wanted_header = {"type": "session", **found, **wrong}
    scan.is_header_wrong = bool(wrong) and scan.header is not None
    if scan.header is None:
        scan.findings.add(f"no header; made for session {wrong['id']!r}")
    elif wrong:
        scan.findings.add(f"the header has no good {', '.join(wrong)}; put right")


def _id_beside(folder: Directory, name: str) -> str | None:
    """Return the session's id from the state that is saved beside its transcript: the file's name may be a hash."""
    state = f"{name.removesuffix(SUFFIX)}.state.json"
    try:
        with opened(folder, state) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    session_id = found.get("session_id") if isinstance(found, dict) else None
    return session_id if isinstance(session_id, str) and session_id else None


def _pieces(scan: _Scan) -> Iterator[Piece]:
    yield json.dumps(scan.wanted_header, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    for span in scan.kept:
        yield span
        yield b"\n"


def _dropped(descriptor: int, scan: _Scan) -> Iterator[Piece]:
    """Yield what is dropped, as it stood there; each part ends with a line break."""
    header = scan.header
    replaced = [(header.start, header.end)] if header is not None and scan.is_header_wrong else []
    for start, end in sorted([*scan.bad, *replaced]):
        yield start, end
        if read_at(descriptor, 1, end - 1) != b"\n":
            yield b"\n"
