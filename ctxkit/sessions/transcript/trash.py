"""The trash beside transcripts: a hidden directory in which each session waits in one of its own, named by the time.

Everything here blocks; what moves files is called under the lock of the directory of the sessions.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ctxkit.offload.directory import Directory
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript import state_file
from ctxkit.sessions.transcript.load import read_row
from ctxkit.sessions.trash import TrashedSession

TRASH: Final = ".trash"

_NAME: Final = re.compile(r"([0-9]{1,20})\.([a-z0-9][a-z0-9_~-]{0,99})")
_MS: Final = 1000


def is_of(stem: str, name: str) -> bool:
    """Return whether a file belongs to a session: transcript, state and what was set aside of them, not its lock."""
    of_session = name.startswith((stem + transcript_file.SUFFIX, stem + state_file.SUFFIX))
    # Where the kernel locks no files, markers beside the lock do: `.lock.{number}`, or `.lock.guard` on Windows.
    return of_session and not name.startswith(f"{stem}{transcript_file.SUFFIX}.lock")


def move_to_trash(folder: Directory, stem: str, *, now: float) -> None:
    """Move the files of a session to the trash, the state last: what is half moved is still read, and moved again."""
    with folder.child(TRASH, create=True) as trash:
        time_ms = max([round(now * _MS), *(at + 1 for at, of, _ in _items(trash) if of == stem)])
        with trash.child(f"{time_ms}.{stem}", create=True) as place:
            for name in sorted(name for name in folder.names() if is_of(stem, name)):
                folder.move(name, place)
            place.sync()
    folder.sync()


def bring_back(folder: Directory, stem: str) -> bool:
    """Move the files of a session back that were trashed last, and return whether there are any."""
    with suppress(FileNotFoundError), folder.child(TRASH, create=False) as trash:
        mine = sorted(item for item in _items(trash) if item[1] == stem)
        if not mine:
            return False
        _, _, newest = mine[-1]
        with trash.child(newest, create=False) as place:
            for name in sorted(name for name in place.names() if is_of(stem, name)):
                place.move(name, folder)
        folder.sync()
        trash.remove_tree(newest)
        return True
    return False


def list_trash(folder: Directory, *, agent_id: str) -> list[TrashedSession]:
    """Return what is in the trash, the oldest first."""
    found = []
    with suppress(FileNotFoundError), folder.child(TRASH, create=False) as trash:
        for time_ms, stem, name in sorted(_items(trash)):
            with suppress(FileNotFoundError), trash.child(name, create=False) as place:
                row = read_row(place, stem, agent_id=agent_id)
                if row is not None:
                    found.append(TrashedSession(session_id=row.session_id, trashed_at=time_ms / _MS))
    return found


def purge_trash(folder: Directory, stem: str, *, trashed_before: float) -> None:
    """Remove for good what was trashed of a session before a time, in seconds since the epoch."""
    with suppress(FileNotFoundError), folder.child(TRASH, create=False) as trash:
        for time_ms, of, name in list(_items(trash)):
            if of == stem and time_ms < round(trashed_before * _MS):
                trash.remove_tree(name)


def _items(trash: Directory) -> Iterator[tuple[int, str, str]]:
    for name in trash.names():
        if (match := _NAME.fullmatch(name)) is not None:
            yield int(match[1]), match[2], name
