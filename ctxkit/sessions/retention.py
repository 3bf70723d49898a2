"""Which old sessions are removed, and what keeps a wrong clock from removing them all.

`plan_retention` decides and does nothing; `maintenance.maintain` carries a plan out.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ctxkit.errors import ConfigError
from ctxkit.sessions.store import SessionEntry
from ctxkit.sessions.trash import TrashedSession

DAY_S: Final = 86_400.0

Mode = Literal["warn", "enforce"]


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Which sessions stay; numbers as in the seeds, guards against a clock that jumps beside them."""

    mode: Mode = "warn"
    """`warn` says what would be removed, `enforce` removes it."""
    max_age_days: float | None = 30.0
    """Sessions that were saved last longer ago go; `None` for no limit."""
    max_sessions: int | None = 500
    """Above so many sessions those saved longest ago go; `None` for no limit."""
    rotate_index_bytes: int = 10_000_000
    """An index above so many bytes is set aside and made anew."""
    keep_backups: int = 3
    """So many indexes that were set aside are kept."""
    keep_newest: int = 20
    """So many sessions, those saved last, always stay."""
    max_ratio: float = 0.1
    """At most this share of the sessions goes in one pass, (0, 1], and at least one."""
    trash_days: float = 7.0
    """What went to the trash is removed for good after so many days."""
    max_silence_days: float = 365.0
    """Where nothing was saved for longer than this, the clock is not believed, and nothing is removed."""
    max_ahead_days: float = 1.0
    """Where something was saved further in the future than this, the clock is not believed, and nothing is removed."""

    def __post_init__(self) -> None:
        if self.mode not in {"warn", "enforce"}:
            self._refuse("mode", "give 'warn' or 'enforce'")
        for name in ("max_age_days", "trash_days", "max_silence_days", "max_ahead_days"):
            value = getattr(self, name)
            if not (value is None and name == "max_age_days") and not (_is_number(value) and value >= 0):
                self._refuse(name, "give a finite number of days of at least 0")
        for name in ("max_sessions", "rotate_index_bytes", "keep_backups", "keep_newest"):
            value = getattr(self, name)
            if not (value is None and name == "max_sessions") and not (type(value) is int and value >= 0):
                self._refuse(name, "give a whole number of at least 0")
        if not _is_number(self.max_ratio) or not 0 < self.max_ratio <= 1:
            self._refuse("max_ratio", "give a share above 0 and at most 1")

    def _refuse(self, name: str, rule: str) -> None:
        msg = f"Retention.{name} is {getattr(self, name)!r}: {rule}."
        raise ConfigError(msg)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A session that goes."""

    entry: SessionEntry
    reason: str
    """Why."""


@dataclass(frozen=True, kw_only=True)
class Delay:
    """A session that would go, and stays for now."""

    entry: SessionEntry
    reason: str
    """Why it would go."""
    guard: str
    """What keeps it."""


@dataclass(frozen=True, kw_only=True)
class MaintenancePlan:
    """What one pass removes."""

    removed: Sequence[Removal] = ()
    """What goes, the one saved longest ago first."""
    delayed: Sequence[Delay] = ()
    """What stays for now, in the same order."""
    purged: Sequence[TrashedSession] = ()
    """What was in the trash for long enough and is removed for good."""
    refusal: str | None = None
    """Why the clock is not believed; nothing is removed then."""


def plan_retention(
    entries: Sequence[SessionEntry],
    retention: Retention,
    *,
    now: float,
    trashed: Sequence[TrashedSession] = (),
    in_use: Collection[str] = (),
) -> MaintenancePlan:
    """Return what a pass removes, and what it leaves for now and why.

    Args:
        entries: All sessions, in any order.
        retention: The rules.
        now: Seconds since the epoch.
        trashed: What is in the trash.
        in_use: Ids of sessions that are open; they stay.
    """
    oldest_first = sorted(entries, key=lambda entry: (entry.updated_at, entry.session_id))
    due = _due(oldest_first, retention, now=now)
    times = [*(entry.updated_at for entry in entries), *(one.trashed_at for one in trashed)]
    refusal = _clock_is_wrong(times, retention, now=now)
    if refusal is not None:
        delayed = [Delay(entry=entry, reason=reason, guard=refusal) for entry, reason in due]
        return MaintenancePlan(delayed=delayed, refusal=refusal)
    newest = {entry.session_id for entry in oldest_first[max(0, len(oldest_first) - retention.keep_newest) :]}
    most = max(1, math.floor(retention.max_ratio * len(entries)))
    used = set(in_use)
    removed: list[Removal] = []
    delayed = []
    for entry, reason in due:
        guard = None
        if entry.session_id in used:
            guard = "it is in use"
        elif entry.session_id in newest:
            guard = f"the newest {retention.keep_newest} stay"
        elif len(removed) >= most:
            guard = f"at most {retention.max_ratio:.0%} go in one pass, at least one: {most} of {len(entries)}"
        if guard is None:
            removed.append(Removal(entry=entry, reason=reason))
        else:
            delayed.append(Delay(entry=entry, reason=reason, guard=guard))
    purged = [one for one in trashed if now - one.trashed_at > retention.trash_days * DAY_S]
    return MaintenancePlan(removed=removed, delayed=delayed, purged=purged)


def _due(oldest_first: Sequence[SessionEntry], retention: Retention, *, now: float) -> list[tuple[SessionEntry, str]]:
    """Return what the rules want to go, whatever the guards say."""
    found = []
    left = len(oldest_first)
    for entry in oldest_first:
        age_days = (now - entry.updated_at) / DAY_S
        if retention.max_age_days is not None and age_days > retention.max_age_days:
            found.append((entry, f"saved last {age_days:.0f} days ago, and {retention.max_age_days:g} are kept"))
        elif retention.max_sessions is not None and left > retention.max_sessions:
            found.append((entry, f"there are more than {retention.max_sessions} sessions, and it is among the oldest"))
        else:
            break  # all others are newer
        left -= 1
    return found


def _clock_is_wrong(times: Sequence[float], retention: Retention, *, now: float) -> str | None:
    if not times:
        return None
    silence_days = (now - max(times)) / DAY_S
    if silence_days > retention.max_silence_days:
        return f"the clock may be wrong: nothing was saved for {silence_days:.0f} days"
    if -silence_days > retention.max_ahead_days:
        return f"the clock may be wrong: something was saved {-silence_days:.0f} days in the future"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
