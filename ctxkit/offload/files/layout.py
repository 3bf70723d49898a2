"""Where things stand in the directory of a store: the layout of AgentScope's workspace.

- `sessions/{session}/context.jsonl`, `context-0002.jsonl`, …: the session's log, one record a line
- `sessions/{session}/context.record-{hash}.json`: a record that is too big for a line
- `sessions/{session}/tool_result-{id}.txt`: a blob of the session
- `data/{sha256}.{ext}`: a blob that sessions share
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctxkit.errors import RecordNotFoundError
from ctxkit.offload.directory import Directory
from ctxkit.offload.files.blobs import is_blob_name
from ctxkit.offload.files.log_index import segment_number
from ctxkit.offload.lines import is_spill_name
from ctxkit.offload.names import fsname

SESSIONS: Final = "sessions"
DATA: Final = "data"

_SURE: Final = 4096
"""So many directories are remembered; of the others the way is synced at each write."""
_FOLDER: Final = re.compile(r"[a-z0-9][a-z0-9_~-]{0,99}")


class Layout:
    """The directory of a store: what stands where in it, and how it is opened.

    Args:
        root: The directory.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        # `resolve()` would follow links, and references would not be what the user expects.
        self.root = Path(os.path.normpath(Path(root) if Path(root).is_absolute() else Path.cwd() / root))
        self._sure: set[tuple[str, ...]] = set()
        """Directories to which the way has reached the disk."""

    def folder(self, session_id: str | None) -> tuple[str, ...]:
        """Return the way from the root to a session's directory, or to the one that sessions share."""
        return (DATA,) if session_id is None else (SESSIONS, fsname(session_id))

    def path(self, *parts: str) -> str:
        """Return the path of something below the root."""
        return str(self.root.joinpath(*parts))

    def parts_of(self, reference: str) -> Sequence[str]:
        """Return the way from the root to what a reference names.

        Raises:
            RecordNotFoundError: It is none that this store gives.
        """
        prefix = str(self.root).rstrip(os.sep) + os.sep
        parts = reference[len(prefix) :].split(os.sep) if reference.startswith(prefix) else []  # noqa: PTH206 - exact
        match parts:
            case [area, name] if area == DATA and is_blob_name(name):
                return parts
            case [area, folder, name] if area == SESSIONS and _FOLDER.fullmatch(folder):
                if is_blob_name(name) or segment_number(name) is not None or is_spill_name(name):
                    return parts
        msg = f"{reference[:300]!r} is no reference of the store in {str(self.root)!r}: use one that it gave."
        raise RecordNotFoundError(msg)

    @contextmanager
    def open(self, *folder: str, create: bool) -> Iterator[Directory]:
        """Open a directory by its way from the root, each component from the one above it.

        What is created is on the disk when it is opened, and so is what somebody else has created who was killed then.

        Raises:
            FileNotFoundError: It is not there and is not to be created.
            OSError: A component is a link or no directory.
        """
        with ExitStack() as way:
            is_sure = folder in self._sure
            if create:
                self._sure.discard(folder)  # until all of it has gone well
            at = way.enter_context(Directory.at(self.root, create=create))
            if create and not is_sure:
                _sync_above(at)
            for name in folder:
                with ExitStack() as next_step:
                    below = next_step.enter_context(at.child(name, create=create))
                    if create and not is_sure:
                        at.sync()
                    at = below
                    way.close()  # what is kept open for long is one descriptor, not three
                    way.push(next_step.pop_all())
            if create and (is_sure or len(self._sure) < _SURE):
                self._sure.add(folder)
            yield at

    def count(self, session: str | None) -> int:
        """Return the bytes of all files of a session (by the name of its directory), or of the whole store."""
        if session is not None:
            return self._count(SESSIONS, session)
        try:
            with self.open(SESSIONS, create=False) as sessions:
                names = sessions.names()
        except (FileNotFoundError, NotADirectoryError):
            names = ()
        return self._count(DATA) + sum(self._count(SESSIONS, name) for name in names)

    def _count(self, *folder: str) -> int:
        try:
            with self.open(*folder, create=False) as directory:
                return sum(status.st_size for _, status in directory.files())
        except OSError:
            return 0  # deleted meanwhile, or a planted link: not of this store


def _sync_above(root: Directory) -> None:
    try:
        with Directory.at(root.path.parent, create=False) as above:
            above.sync()
    except PermissionError:
        return  # a directory that others own, where ours stood before
