"""Writes a session to its two files: first what is new to the transcript, then the state in one step."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ctxkit.errors import NewerFormatError
from ctxkit.offload.directory import Directory
from ctxkit.offload.names import fsname
from ctxkit.sessions.encoding import encode_piece, encode_state, messages_of
from ctxkit.sessions.rows import next_row
from ctxkit.sessions.store import SavedSession, SessionEntry
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript import state_file
from ctxkit.sessions.transcript.file import START, append, header_line, is_at, read_header, read_lines, reset
from ctxkit.sessions.transcript.history import History
from ctxkit.sessions.transcript.index import stamp
from ctxkit.sessions.transcript.state_file import Trailer, parse_state, read_bytes, write_state

_KNOWN_SESSIONS: Final = 64
"""So many sessions are remembered as they were written last; of the others the state is read again before a save."""


@dataclass(frozen=True)
class Prepared:
    """A state made ready to be written, away from the lock."""

    session_id: str
    state: bytes
    messages: Sequence[tuple[Any, bytes]]


@dataclass
class _Known:
    """A session as it was written or read last."""

    row: SessionEntry | None
    files: tuple[str, str]
    """Stamps of the state and of the transcript, up to whose end `history` was learnt."""
    history: History = field(default_factory=History)


class Saver:
    """Saves the sessions of one directory; everything but `prepare` is called under its lock.

    Args:
        agent_id: Whose sessions they are.
        clock: Seconds since the epoch.
    """

    def __init__(self, *, agent_id: str, clock: Callable[[], float]) -> None:
        self._agent_id = agent_id
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def prepare(self, session_id: str, state: Mapping[str, Any]) -> Prepared:
        """Return a state as it is written.

        Raises:
            ValueError: It is no plain JSON.
        """
        messages = [(message, encode_piece(message)) for message in messages_of(state)]
        data = encode_state(state, messages=[encoded for _, encoded in messages])
        return Prepared(session_id, data, messages)

    def create(self, folder: Directory, session_id: str) -> SessionEntry | None:
        """Begin a transcript and return its row; `None` where there is one."""
        stem = fsname(session_id)
        name = stem + transcript_file.SUFFIX
        if folder.status(name) is not None or folder.status(stem + state_file.SUFFIX) is not None:
            return None
        now = self._clock()
        size = append(folder, name, header_line(session_id, now=now), []).end
        return next_row(
            session_id, self._blank(session_id), None, now=now, size=size, session_file=self._path(folder, name)
        )

    def save(self, folder: Directory, prepared: Prepared, entry: SessionEntry | None) -> SessionEntry:
        """Save a session and return its row.

        Raises:
            NewerFormatError: A newer ctxkit saved it.
            OSError: It could not be saved; the state before stays.
        """
        session_id, now = prepared.session_id, self._clock()
        stem = fsname(session_id)
        name = stem + transcript_file.SUFFIX
        known = self._learn(folder, stem)
        new = [encoded for message, encoded in prepared.messages if known.history.tells_more(message, encoded)]
        mark = append(folder, name, header_line(session_id, now=now), new)
        row = next_row(
            session_id,
            entry or known.row or self._blank(session_id),
            known.row,
            now=now,
            size=len(prepared.state) + mark.end,
            session_file=self._path(folder, name),
        )
        write_state(folder, stem + state_file.SUFFIX, prepared.state, Trailer(row=row, transcript=mark))
        known.history.forget_others(prepared.messages)
        self._remember(stem, replace(known, row=row, files=_stamps(folder, stem)))
        return row

    def reset(self, folder: Directory, saved: SavedSession) -> SavedSession:
        """Empty a session that no assistant has answered in; its messages are set aside in a file of their own."""
        session_id, now = saved.entry.session_id, self._clock()
        stem = fsname(session_id)
        name = stem + transcript_file.SUFFIX
        header = header_line(session_id, now=now)
        # What the state has and the transcript lacks, since somebody removed it, is set aside too.
        append(folder, name, header, [encode_piece(message) for message in messages_of(saved.state)])
        mark = reset(folder, name, header, aside=f"{name}.reset-{round(now * 1000)}")
        state = {**saved.state, "context": []}
        data = encode_state(state)
        row = replace(saved.entry, size=len(data) + len(header))
        write_state(folder, stem + state_file.SUFFIX, data, Trailer(row=row, transcript=mark))
        self._known.pop(stem, None)
        told = f"no assistant had answered yet: {len(messages_of(saved.state))} messages were set aside"
        return SavedSession(state=state, entry=row, repairs=[*saved.repairs, told])

    def _learn(self, folder: Directory, stem: str) -> _Known:
        """Return what is written of a session already, read anew where somebody else has written it since.

        It is taken out of what is remembered, so that a save that fails leaves nothing behind that is not so.
        """
        known = self._known.pop(stem, None)
        transcript, files = stem + transcript_file.SUFFIX, _stamps(folder, stem)
        if known is not None and known.files == files:
            return known
        if folder.status(transcript) is not None:
            read_header(folder, transcript)  # a newer format is refused
        trailer, context = Trailer(), []
        try:
            where = str(folder.path / (stem + state_file.SUFFIX))
            state, trailer = parse_state(read_bytes(folder, stem + state_file.SUFFIX), where=where)
            context = list(messages_of(state))
        except NewerFormatError:
            raise
        except (FileNotFoundError, ValueError):
            pass  # all that is known stands in the transcript then
        learnt = _Known(trailer.row, files)
        mark = trailer.transcript
        if mark == START or not is_at(folder, transcript, mark):
            mark, context = START, []  # the transcript is another one, or the state is somebody else's
        for message in (*context, *read_lines(folder, transcript, start=mark.end)):
            if message is not None:
                learnt.history.tells_more(message, encode_piece(message))
        return learnt

    def _remember(self, stem: str, known: _Known) -> None:
        self._known[stem] = known
        while len(self._known) > _KNOWN_SESSIONS:
            self._known.popitem(last=False)

    def _blank(self, session_id: str) -> SessionEntry:
        return SessionEntry(session_id=session_id, updated_at=0.0, agent_id=self._agent_id)

    def _path(self, folder: Directory, name: str) -> str:
        return str(folder.path / name)


def _stamps(folder: Directory, stem: str) -> tuple[str, str]:
    return stamp(folder.status(stem + state_file.SUFFIX)), stamp(folder.status(stem + transcript_file.SUFFIX))
