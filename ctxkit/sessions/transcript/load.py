"""Reads a session from its two files: the state, or where that is broken or missing, the transcript."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ctxkit.errors import StoreReadError
from ctxkit.offload.directory import Directory
from ctxkit.offload.names import fsname
from ctxkit.sessions.encoding import messages_of
from ctxkit.sessions.store import SavedSession, SessionEntry
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript import state_file
from ctxkit.sessions.transcript.file import read_header, read_messages
from ctxkit.sessions.transcript.state_file import parse_state, read_bytes, read_trailer
from ctxkit.sessions.unanswered import unanswered


@dataclass(frozen=True)
class LoadedSession:
    """A session as its files have it."""

    saved: SavedSession
    is_unanswered: bool
    """Whether it has messages, and all of them are requests that nobody has answered."""


def load_session(folder: Directory, session_id: str, *, agent_id: str) -> LoadedSession | None:
    """Return a session; `None` where it has no state and no message.

    Raises:
        NewerFormatError: A newer ctxkit saved it.
        StoreReadError: Neither of its files can be read.
    """
    stem = fsname(session_id)
    transcript = stem + transcript_file.SUFFIX
    _prewarm(folder, transcript)
    try:
        data = read_bytes(folder, stem + state_file.SUFFIX)
    except FileNotFoundError:
        return _from_transcript(folder, session_id, agent_id=agent_id, problem=None)
    try:
        state, trailer = parse_state(data, where=str(folder.path / (stem + state_file.SUFFIX)))
    except ValueError as exc:
        folder.publish(f"{stem}{state_file.SUFFIX}.broken-{blake2b(data, digest_size=4).hexdigest()}", data)
        return _from_transcript(folder, session_id, agent_id=agent_id, problem=str(exc))
    row = trailer.row if trailer.row is not None else _row_by_time(folder, stem, agent_id=agent_id)
    row = replace(row, session_id=session_id, session_file=str(folder.path / transcript))
    saved = SavedSession(state=state, entry=row)
    if not _is_unanswered(state, messages_of(state)):
        return LoadedSession(saved, is_unanswered=False)
    messages, _ = read_messages(folder, transcript)
    return LoadedSession(saved, is_unanswered=not messages or _is_unanswered(state, messages))


def read_row(folder: Directory, stem: str, *, agent_id: str) -> SessionEntry | None:
    """Return what the files of a session say of it; `None` where there is no session of that name.

    What cannot be read is told by its times alone, so that one broken file does not hide the others.
    """
    row = None
    try:
        row = read_trailer(folder, stem + state_file.SUFFIX).row
    except FileNotFoundError:
        if folder.status(stem + transcript_file.SUFFIX) is None:
            return None
    except (OSError, ValueError, StoreReadError):
        pass  # `load` says what is wrong with it
    if row is None or fsname(row.session_id) != stem:
        row = _row_by_time(folder, stem, agent_id=agent_id)
    if fsname(row.session_id) != stem:
        return None  # no id gives that name: it was not made by a session
    return replace(row, session_file=str(folder.path / (stem + transcript_file.SUFFIX)))


def _from_transcript(folder: Directory, session_id: str, *, agent_id: str, problem: str | None) -> LoadedSession | None:
    stem = fsname(session_id)
    messages, broken = read_messages(folder, stem + transcript_file.SUFFIX)
    if not messages:
        if problem is None:
            return None
        path = str(folder.path / (stem + state_file.SUFFIX))
        msg = f"The saved state {path!r} is broken ({problem}), and there is no message in the transcript beside it."
        raise StoreReadError(msg)
    what = "is missing" if problem is None else f"was broken ({problem})"
    told = [f"the saved state {what}: its {len(messages)} messages were taken from the transcript, without the summary"]
    if broken:
        told.append(f"{broken} lines of the transcript are broken and were passed over")
    state: dict[str, Any] = {"session_id": session_id, "context": messages}
    row = replace(_row_by_time(folder, stem, agent_id=agent_id), session_id=session_id)
    return LoadedSession(
        SavedSession(state=state, entry=row, repairs=told), is_unanswered=_is_unanswered(state, messages)
    )


def _prewarm(folder: Directory, transcript: str) -> None:
    """Read the first 4 KB of a transcript, as the seed does before a compression, and refuse a newer format."""
    try:
        read_header(folder, transcript)
    except FileNotFoundError:
        return


def _is_unanswered(state: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    asked = unanswered(state, messages)
    return bool(messages) and all(str(message.get("id")) in asked for message in messages if isinstance(message, dict))


def _row_by_time(folder: Directory, stem: str, *, agent_id: str) -> SessionEntry:
    """Return a row for files that do not say it themselves."""
    session_id, updated_at, size = stem, 0.0, 0
    for suffix in (state_file.SUFFIX, transcript_file.SUFFIX):
        status = folder.status(stem + suffix)
        if status is not None:
            updated_at, size = max(updated_at, status.st_mtime), size + status.st_size
    try:
        header = read_header(folder, stem + transcript_file.SUFFIX)
    except (OSError, StoreReadError):
        header = None
    if header is not None and isinstance(header.get("id"), str):
        session_id = header["id"]
    file = str(folder.path / (stem + transcript_file.SUFFIX))
    return SessionEntry(session_id=session_id, updated_at=updated_at, agent_id=agent_id, size=size, session_file=file)
