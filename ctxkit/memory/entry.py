"""An entry of memory: what one compression took out of a context, in words, and the records that it is made of."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from ctxkit.ledger import clipped

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.offload import Store

FOLDER: Final = "memory"
"""Where the daily files are, below the directory."""

_MARK: Final = "<!-- ctxkit:"
_NAME_CHARS: Final = 100
BY_CODE: Final = "collected by code: no model could summarise"
"""How an entry is marked that no model has written."""


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What is to be written to memory."""

    id: str
    """What makes it the same entry, however often it is asked for; a compression's is its plan's id."""
    session_id: str
    messages: "tuple[Msg, ...]"
    """What left the context, oldest first."""
    agent: str = ""
    """The agent's name."""
    store: "Store | None" = None
    """Where the messages are stored already; they are not stored twice in one store."""
    keys: tuple[str, ...] = ()
    """Keys of their records there."""


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """What was written to memory of what left a context."""

    id: str
    """The id of the plan that took it away."""
    session_id: str
    agent: str
    at: float
    """When it left, in seconds since the epoch."""
    day: str
    """The day of its file, `YYYY-MM-DD`, in the configured time zone."""
    clock: str
    """The time of that day with its offset, `HH:MM:SS+HHMM`."""
    daily: str
    """The entry of the daily file."""
    memory: str
    """What is to be injected into the context, so that the conversation can go on."""
    is_extractive: bool
    """Whether no model has written it: then both texts say so."""
    input_tokens: int = 0
    """What writing it cost, as the provider told it."""
    output_tokens: int = 0
    """As above."""

    @property
    def path(self) -> str:
        """The daily file below the directory, `memory/YYYY-MM-DD.md`."""
        return f"{FOLDER}/{self.day}.md"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Flushed":
        """Return the entry of a record's body."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})


def day_and_clock(at: float, time_zone: str | None) -> tuple[str, str]:
    """Return the day and the time of a moment, as people there write them.

    Args:
        at: Seconds since the epoch.
        time_zone: An IANA name; `None` for the machine's own zone.
    """
    zone = None if time_zone is None else ZoneInfo(time_zone)
    moment = datetime.fromtimestamp(at, tz=UTC).astimezone(zone)
    return moment.strftime("%Y-%m-%d"), moment.strftime("%H:%M:%S%z")


def section(entry: Flushed, key: str) -> bytes:
    """Return an entry as a section of its daily file, between two comments that tell it from others.

    Args:
        entry: The entry.
        key: Letters, digits, `~` and `-`; no two entries have the same.
    """
    said = clipped(entry.session_id, _NAME_CHARS).replace(_MARK, "<!- ctxkit:")
    title = f"## {entry.clock}, session {said}" + (f" ({BY_CODE})" if entry.is_extractive else "")
    # A text cannot end its own section, or begin another one.
    body = entry.daily.strip().replace(_MARK, "<!- ctxkit:")
    text = f"{_MARK}entry {key} -->\n{title}\n\n{body}\n\n{end_mark(key)}\n"
    return text.encode("utf-8", "replace")


def end_mark(key: str) -> str:
    """Return the line that stands behind a section that is there whole."""
    return f"{_MARK}end {key} -->"


def now() -> float:
    """Return the time, in seconds since the epoch."""
    return time.time()
