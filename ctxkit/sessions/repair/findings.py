"""What a repair of a file says: its findings, bounded, and what came of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

FileKind = Literal["transcript", "state", "log", "other"]
"""A session's transcript, a saved `AgentState`, the log of a store, or nothing that can be repaired here."""

Outcome = Literal["sound", "repairable", "repaired", "failed"]
"""Nothing was wrong; it would be repaired, in a dry run; it was; it could not be."""

_MOST: Final = 50


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What was wrong with a file and what was done about it."""

    path: Path
    kind: FileKind
    outcome: Outcome
    findings: tuple[str, ...] = ()
    """What was wrong, or why it could not be repaired, in words: at most 50, and how many more."""
    backup: Path | None = None
    """A copy of the original."""
    dropped: tuple[Path, ...] = ()
    """Where what was dropped is stored."""


class Findings:
    """Gathers findings and keeps the first of them."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._more = 0

    def add(self, finding: str) -> None:
        """Take one more."""
        if len(self._said) < _MOST:
            self._said.append(finding)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._said)

    def said(self) -> tuple[str, ...]:
        """Return the first of them, and how many more there are."""
        return (*self._said, f"and {self._more} more") if self._more else tuple(self._said)
