"""The session store of transcripts: one JSONL file a session that only grows, and AgentScope's state beside it.

<root>/agents/{agent}/sessions/
    {session}.jsonl         a header and every message that was ever saved, one a line
    {session}.state.json    AgentScope's `AgentState`, put in the place of the one before at each save
    {session}.jsonl.lock    the lock of the session's owner
    sessions.json           the index, a cache
    .fences/ .trash/        the epochs of owners, and the sessions that wait to be removed for good
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ctxkit.errors import StoreError, StoreReadError, StoreWriteError
from ctxkit.offload.directory import Directory
from ctxkit.offload.files.epochs import highest_epoch, raise_epoch
from ctxkit.offload.locks.lock import locked
from ctxkit.offload.names import fsname
from ctxkit.sessions.encoding import no_json_error
from ctxkit.sessions.store import SavedSession, SessionEntry
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript.index import INDEX_NAME, Index
from ctxkit.sessions.transcript.load import load_session, read_row
from ctxkit.sessions.transcript.save import Saver
from ctxkit.sessions.transcript.trash import bring_back, is_of, list_trash, move_to_trash, purge_trash
from ctxkit.sessions.trash import TrashedSession
from ctxkit.sessions.worker import Worker

_T = TypeVar("_T")

logger = logging.getLogger("ctxkit.sessions")

_FENCES: Final = ".fences"


class TranscriptSessionStore:
    """Keeps each session as a transcript and a state, both plain JSON; see `SessionStore`.

    What `save` has returned for survives `kill -9` and a power cut, as far as the disk keeps what it has confirmed. The
    transcript gets each message when it is saved first, and again under its id when it has grown since; who reads it
    takes the newest of each block, or the longer one where a compression has cut it. The state is what a new process
    goes on with; where it is broken, it is made anew from the transcript. Any number of processes of one machine may
    use the directory, which must be on a local file system.

    Args:
        root: The directory, made at the first write; what is made in it is private to its owner.
        agent_id: Whose sessions these are.
        lock_timeout_s: Seconds to wait for another process that writes.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        agent_id: str = "main",
        *,
        lock_timeout_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = Path(os.path.normpath(Path(root) if Path(root).is_absolute() else Path.cwd() / root))
        self.agent_id = agent_id
        self._parts = ("agents", fsname(agent_id), "sessions")
        self._path = self.root.joinpath(*self._parts)
        self._lock_timeout_s = lock_timeout_s
        self._clock = clock
        self._worker = Worker("ctxkit-sessions")
        self._index = Index(partial(read_row, agent_id=agent_id))
        self._saver = Saver(agent_id=agent_id, clock=clock)

    async def create(self, session_id: str) -> None:
        """Begin a session: its transcript, empty but for the header, and its row in the index.

        `save` does the same where it was not done. A session that is there stays as it is.

        Raises:
            StoreWriteError: It could not be begun.
        """
        await self._write(partial(self._create, session_id), session_id)

    async def save(
        self, session_id: str, state: Mapping[str, Any], *, entry: SessionEntry | None = None, epoch: int | None = None
    ) -> None:
        """Save the state of a session durably; see `SessionStore.save`. The state must not change meanwhile.

        Raises:
            StaleOwnerError: A higher epoch has saved or fenced the session.
            StoreWriteError: It could not be saved; the state saved before stays.
        """
        await self._write(partial(self._save, session_id, state, entry, epoch), session_id)

    async def load(self, session_id: str) -> SavedSession | None:
        """Return a saved session, or None where there is none, or none but a header.

        A session in which no assistant has spoken yet is reset: its transcript is empty but for the header, and its
        context is empty, so that the first prompt, sent again, stands there once. What it had is kept beside it in a
        file `{session}.jsonl.reset-{time}`.

        Raises:
            NewerFormatError: A newer ctxkit saved it.
            StoreReadError: State and transcript cannot be read.
        """
        return await self._read(partial(self._load, session_id), session_id)

    async def list(self) -> AsyncIterator[SessionEntry]:
        """Yield all sessions, the last saved first; those too that were begun and not saved yet.

        Raises:
            StoreReadError: They cannot be read.
        """
        for row in await self._read(self._rows):
            yield row

    async def peek(self, session_id: str) -> SessionEntry | None:
        """Return the row of a session without loading its state.

        Raises:
            StoreReadError: It cannot be read.
        """
        return await self._read(partial(self._peek, session_id), session_id)

    async def delete(self, session_id: str) -> None:
        """Remove a session and what is beside it; its epochs stay, so that an owner that lost it cannot bring it back.

        Raises:
            StoreWriteError: It could not be removed.
        """
        await self._write(partial(self._delete, session_id), session_id)

    async def fence(self, session_id: str, epoch: int) -> None:
        """Refuse every later `save` of a session with a lower epoch.

        Raises:
            StaleOwnerError: A higher epoch has been used already.
            StoreWriteError: The fence could not be stored.
        """
        await self._write(partial(self._fence, session_id, epoch), session_id)

    def lock_path(self, session_id: str) -> str:
        """Return the path of the file whose lock makes one owner of a session."""
        return f"{self._path / fsname(session_id)}{transcript_file.SUFFIX}.lock"

    async def epoch(self, session_id: str) -> int:
        """Return the highest epoch that was used on a session, 0 where none was.

        Raises:
            StoreReadError: It cannot be read.
        """
        return await self._read(partial(self._highest, session_id), session_id)

    async def trash(self, session_id: str, *, saved_at: float | None = None) -> bool:
        """Move a session to the trash, unless it was saved since; see `Trashes`.

        Raises:
            StoreWriteError: It could not be moved.
        """
        return await self._write(partial(self._trash, session_id, saved_at), session_id)

    async def untrash(self, session_id: str) -> bool:
        """Bring a session back as it was trashed last; see `Trashes`.

        Raises:
            StoreWriteError: It could not be brought back.
        """
        return await self._write(partial(self._untrash, session_id), session_id)

    async def trashed(self) -> AsyncIterator[TrashedSession]:
        """Yield what is in the trash, the oldest first.

        Raises:
            StoreReadError: It cannot be read.
        """
        for one in await self._read(self._trashed):
            yield one

    async def purge(self, session_id: str, *, trashed_before: float) -> None:
        """Remove for good what was trashed of a session before a time.

        Raises:
            StoreWriteError: It could not be removed.
        """
        await self._write(partial(self._purge, session_id, trashed_before), session_id)

    async def rotate_index(self, *, max_bytes: int, keep: int) -> bool:
        """Set an index aside that is too large, as `sessions.json.bak.{milliseconds}`, and make it anew.

        Args:
            max_bytes: An index of at most so many bytes stays.
            keep: Indexes that are kept aside, the newest ones.

        Returns:
            Whether it was too large.

        Raises:
            StoreWriteError: It could not be set aside.
        """
        return await self._write(partial(self._rotate, max_bytes, keep))

    async def aclose(self) -> None:
        """Wait for what is being done; the store may be used again."""
        await self._worker.aclose()

    async def _read(self, call: Callable[[], _T], session_id: str | None = None) -> _T:
        return await self._worker.run(partial(self._guarded, call, StoreReadError, "read", session_id))

    async def _write(self, call: Callable[[], _T], session_id: str | None = None) -> _T:
        return await self._worker.run(partial(self._guarded, call, StoreWriteError, "written", session_id))

    def _guarded(self, call: Callable[[], _T], error: type[StoreError], what: str, session_id: str | None) -> _T:
        name = "The sessions" if session_id is None else f"Session {session_id[:200]!r}"
        try:
            return call()
        except (OSError, ValueError) as exc:
            msg = f"{name} in {str(self._path)!r} could not be {what}: {exc}. Look at the files and the free space."
            raise error(msg) from exc
        except StoreReadError as exc:
            if issubclass(error, StoreReadError):
                raise
            raise error(str(exc)) from exc

    @contextmanager
    def _folder(self, *, create: bool) -> Iterator[Directory]:
        """Open the directory of the sessions, following no link below the root.

        Raises:
            FileNotFoundError: It is not there and is not to be made.
        """
        folder = Directory.at(self.root, create=create)
        try:
            for part in self._parts:
                inner = folder.child(part, create=create)
                folder.close()
                folder = inner
            yield folder
        finally:
            folder.close()

    @contextmanager
    def _locked(self) -> Iterator[Directory]:
        with self._folder(create=True) as folder, locked(folder, timeout_s=self._lock_timeout_s):
            yield folder

    def _create(self, session_id: str) -> None:
        with self._locked() as folder:
            row = self._saver.create(folder, session_id)
            if row is not None:
                self._index.put(folder, fsname(session_id), row)

    def _save(self, session_id: str, state: Mapping[str, Any], entry: SessionEntry | None, epoch: int | None) -> None:
        try:
            prepared = self._saver.prepare(session_id, state)
        except ValueError as exc:
            raise no_json_error(session_id, exc) from exc
        with self._locked() as folder:
            if epoch is not None:
                self._raise_epoch(folder, session_id, epoch)
            row = self._saver.save(folder, prepared, entry)
            self._index.put(folder, fsname(session_id), row)

    def _load(self, session_id: str) -> SavedSession | None:
        try:
            with self._folder(create=False) as folder:
                found = load_session(folder, session_id, agent_id=self.agent_id)
                if found is None or not found.is_unanswered:
                    return None if found is None else found.saved
                with locked(folder, timeout_s=self._lock_timeout_s):
                    found = load_session(folder, session_id, agent_id=self.agent_id)
                    if found is None or not found.is_unanswered:
                        return None if found is None else found.saved
                    saved = self._saver.reset(folder, found.saved)
                    self._index.put(folder, fsname(session_id), saved.entry)
                    return saved
        except FileNotFoundError:
            return None

    def _rows(self) -> Sequence[SessionEntry]:
        try:
            with self._folder(create=False) as folder:
                rows, is_current = self._index.rows(folder)
                if not is_current:
                    self._renew_index(folder)
        except FileNotFoundError:
            return []
        return sorted(rows, key=lambda row: (-row.updated_at, row.session_id))

    def _renew_index(self, folder: Directory) -> None:
        try:
            with locked(folder, timeout_s=self._lock_timeout_s):
                self._index.rows(folder)
                self._index.write(folder)
        except OSError as exc:
            logger.warning("The index of %r could not be written: %s", str(folder.path), exc)

    def _peek(self, session_id: str) -> SessionEntry | None:
        try:
            with self._folder(create=False) as folder:
                return read_row(folder, fsname(session_id), agent_id=self.agent_id)
        except FileNotFoundError:
            return None

    def _delete(self, session_id: str) -> None:
        stem = fsname(session_id)
        try:
            with self._folder(create=False) as folder, locked(folder, timeout_s=self._lock_timeout_s):
                # The state last: a session that is half removed is then read whole, or not at all.
                for name in sorted(filter(partial(is_of, stem), folder.names())):
                    folder.unlink(name)
                folder.sync()
                self._index.put(folder, stem, None)
        except FileNotFoundError:
            return

    def _fence(self, session_id: str, epoch: int) -> None:
        with self._locked() as folder:
            self._raise_epoch(folder, session_id, epoch)

    def _raise_epoch(self, folder: Directory, session_id: str, epoch: int) -> None:
        with folder.child(_FENCES, create=True) as fences, fences.child(fsname(session_id), create=True) as fence:
            raise_epoch(fence, session_id, epoch)

    def _highest(self, session_id: str) -> int:
        try:
            with (
                self._folder(create=False) as folder,
                folder.child(_FENCES, create=False) as fences,
                fences.child(fsname(session_id), create=False) as fence,
            ):
                return highest_epoch(fence)
        except FileNotFoundError:
            return 0

    def _trash(self, session_id: str, saved_at: float | None) -> bool:
        stem = fsname(session_id)
        with self._locked() as folder:
            row = read_row(folder, stem, agent_id=self.agent_id)
            if row is None or saved_at not in {None, row.updated_at}:
                return False
            move_to_trash(folder, stem, now=self._clock())
            self._index.put(folder, stem, None)
            return True

    def _untrash(self, session_id: str) -> bool:
        stem = fsname(session_id)
        with self._locked() as folder:
            row = read_row(folder, stem, agent_id=self.agent_id)
            if row is not None or not bring_back(folder, stem):
                return False
            self._index.put(folder, stem, read_row(folder, stem, agent_id=self.agent_id))
            return True

    def _trashed(self) -> Sequence[TrashedSession]:
        try:
            with self._folder(create=False) as folder:
                return list_trash(folder, agent_id=self.agent_id)
        except FileNotFoundError:
            return []

    def _purge(self, session_id: str, trashed_before: float) -> None:
        with self._locked() as folder:
            purge_trash(folder, fsname(session_id), trashed_before=trashed_before)

    def _rotate(self, max_bytes: int, keep: int) -> bool:
        with self._locked() as folder:
            status = folder.status(INDEX_NAME)
            if status is None or status.st_size <= max_bytes:
                return False
            self._index.rotate(folder, now=self._clock(), keep=keep)
            return True
