"""Bootstrap files: what stands in every system prompt, within caps, and read again only when a file has changed."""

import asyncio
import inspect
import logging
import os
import stat
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxkit.config import MemoryConfig
from ctxkit.offload.directory import Directory, read_at

logger = logging.getLogger("ctxkit.memory")

TITLE: Final = "# Workspace files"
_NOTE: Final = "[... {name} is cut here, behind its first {shown} characters; the rest is in the file ...]"
_LEFT_OUT: Final = "[{names}: left out, for all files together have at most {most} characters here]"
_SESSIONS: Final = 64
"""Sessions whose text is kept; that of another one is made anew."""
_BYTES_PER_CHAR: Final = 4
_NAMED_AT_ONCE: Final = 5

Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file inode, size and time of its last change in nanoseconds; None where it is missing."""


@dataclass(frozen=True, kw_only=True)
class BootstrapFiles:
    """What a bootstrap hook is told."""

    session_id: str
    agent: str
    """The agent's name."""
    directory: str | None
    """Where the files are; `None` where there is no directory."""
    files: Mapping[str, str]
    """Name to text of each file that is there, in the order of the prompt; of a long one only the beginning."""


class Bootstrap:
    """Puts a directory's bootstrap files into system prompts.

    Their text is the same, byte for byte, until a file changes: only then the provider's prompt cache is lost. A file
    that is missing is left out, one that cannot be read is too, and is named once in the log.

    Args:
        directory: Where the files are; `None` for those of hooks alone.
        config: Names, caps and hooks.
    """

    def __init__(self, directory: str | os.PathLike[str] | None, config: MemoryConfig) -> None:
        self._directory = None if directory is None else Path(directory).absolute()
        self.config = config
        """Names, caps and hooks."""
        self._texts: OrderedDict[tuple[str, str], tuple[Signature, str]] = OrderedDict()
        self._named: set[str] = set()

    async def text(self, session_id: str, agent: str) -> str:
        """Return what goes behind the system prompt; empty where there is nothing.

        Args:
            session_id: The session, for the hooks.
            agent: The agent's name, for the hooks.
        """
        if not self.config.bootstrap_names and not self.config.bootstrap_hooks:
            return ""
        here = (session_id, agent)
        signature = await asyncio.to_thread(self._look)
        known = self._texts.get(here)
        if known is not None and known[0] == signature:
            self._texts.move_to_end(here)
            return known[1]
        found: Mapping[str, str] = await asyncio.to_thread(self._read, signature)
        for hook in self.config.bootstrap_hooks:
            directory = None if self._directory is None else str(self._directory)
            about = BootstrapFiles(session_id=session_id, agent=agent, directory=directory, files=found)
            found = await _hooked(hook, about)
        text = render(found, file_chars=self.config.bootstrap_file_chars, total_chars=self.config.bootstrap_total_chars)
        self._texts[here] = (signature, text)
        while len(self._texts) > _SESSIONS:
            self._texts.popitem(last=False)
        return text

    def _look(self) -> Signature:
        """Return what tells the files as they are from others."""
        names = self.config.bootstrap_names
        if self._directory is None:
            return (None,) * len(names)
        try:
            with Directory.at(self._directory, create=False) as folder:
                return tuple(_signature(folder.status(name)) for name in names)
        except OSError as exc:
            if not isinstance(exc, FileNotFoundError):
                self._name(str(self._directory), exc)
            return (None,) * len(names)

    def _read(self, signature: Signature) -> dict[str, str]:
        """Return the texts of the files that are there; of a long one no more than can be shown."""
        found: dict[str, str] = {}
        if self._directory is None or not any(signature):
            return found
        most = _BYTES_PER_CHAR * (self.config.bootstrap_total_chars + 1)
        with Directory.at(self._directory, create=False) as folder:
            for name, there in zip(self.config.bootstrap_names, signature, strict=True):
                if there is None:
                    continue
                try:
                    found[name] = _content(folder, name, most)
                except FileNotFoundError:
                    continue  # gone since
                except OSError as exc:
                    self._name(name, exc)
        return found

    def _name(self, name: str, error: OSError) -> None:
        if name not in self._named:
            self._named.add(name)
            logger.warning("the bootstrap file %r cannot be read (%s); the system prompt goes without it", name, error)


def render(files: Mapping[str, str], *, file_chars: int, total_chars: int) -> str:
    """Return files as a part of the system prompt; empty where no file says anything.

    Args:
        files: Name to text, in order.
        file_chars: Most characters of one file; a longer one is cut at its end, with a note within that room.
        total_chars: Most characters of all together, headings and notes included; what finds no room is named.
    """
    texts = {name: text.strip() for name, text in files.items() if text.strip()}
    if not texts:
        return ""
    parts, left_out = [TITLE], []
    room = total_chars - len(TITLE)
    reserve = len(_left_out(list(texts), total_chars)) + 2
    for name, text in texts.items():
        heading = f"## {name}\n\n"
        free = min(file_chars, room - len(heading) - reserve - 2)
        short = _cut(name, text, free)
        if not short:
            left_out.append(name)
            continue
        parts.append(f"{heading}{short}")
        room -= len(heading) + len(short) + 2
    if left_out:
        parts.append(_left_out(left_out, total_chars))
    text = "\n\n".join(parts)
    return text if len(text) <= total_chars else text[:total_chars]


def _left_out(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - _NAMED_AT_ONCE} more" if len(names) > _NAMED_AT_ONCE else ""
    return _LEFT_OUT.format(names=", ".join(names[:_NAMED_AT_ONCE]) + more, most=f"{most:,}")


def _cut(name: str, text: str, most: int) -> str:
    """Return a text of at most so many characters, with a note where it was cut; empty where not even that fits."""
    if len(text) <= most:
        return text
    note = _NOTE.format(name=name, shown=f"{most:,}")
    shown = most - len(note) - 1
    if shown <= 0:
        return ""
    note = _NOTE.format(name=name, shown=f"{shown:,}")
    return f"{text[:shown]}\n{note}"


def _signature(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _content(folder: Directory, name: str, most: int) -> str:
    """Return the text of a file that is not a link, a pipe or a device, with at most so many bytes of it."""
    descriptor = folder.look(name)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            msg = "is no plain file"
            raise OSError(msg)
        return read_at(descriptor, most, 0).decode("utf-8-sig", "replace")
    finally:
        os.close(descriptor)


async def _hooked(hook: object, about: BootstrapFiles) -> Mapping[str, str]:
    """Return the files as a hook has them; as they were where it raises or returns nothing."""
    try:
        answer = hook(about) if callable(hook) else None
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:
        logger.exception("a bootstrap hook raised; the files stay as they are")
        return about.files
    if answer is None:
        return about.files
    is_right = isinstance(answer, Mapping) and all(isinstance(each, str) for pair in answer.items() for each in pair)
    if not is_right:
        logger.warning("a bootstrap hook returned %s instead of names and texts; the files stay", type(answer).__name__)
        return about.files
    return dict(answer)
