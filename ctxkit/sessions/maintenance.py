"""Carries a plan of retention out on any session store."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ctxkit.errors import SessionLockedError, StoreError
from ctxkit.offload.capabilities import Deletes
from ctxkit.sessions.lock import SessionLocks
from ctxkit.sessions.retention import DAY_S, MaintenancePlan, Mode, Retention, plan_retention
from ctxkit.sessions.store import SessionEntry, SessionStore
from ctxkit.sessions.trash import Trashes

logger = logging.getLogger("ctxkit.sessions")


@runtime_checkable
class RotatesIndex(Protocol):
    """Has an index that may grow too large."""

    async def rotate_index(self, *, max_bytes: int, keep: int) -> bool:
        """Set an index of more than `max_bytes` aside, keep the newest `keep` of those, and make it anew.

        Returns:
            Whether it was too large.

        Raises:
            StoreWriteError: It could not be set aside.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class MaintenanceReport:
    """What a pass did, or in mode `warn` would do."""

    mode: Mode
    plan: MaintenancePlan
    removed: Mapping[str, str]
    """What went (`warn`: would go) to the trash, or at once where the store has none: session to reason."""
    delayed: Mapping[str, str]
    """What would go and stays for now: session to reason, with the guard that keeps it."""
    purged: Collection[str] = ()
    """What was removed for good."""
    is_rotated: bool = False
    """Whether the index was set aside."""

    def to_json(self) -> dict[str, Any]:
        """Return the value of the event `ctxkit.session.maintenance`."""
        return {"mode": self.mode, "removed": dict(self.removed), "delayed": dict(self.delayed)}


async def maintain(
    store: SessionStore,
    retention: Retention,
    *,
    in_use: Collection[str] = (),
    also: Deletes | None = None,
    clock: Callable[[], float] = time.time,
) -> MaintenanceReport:
    """Make one pass over a store: remove what the rules want to go and the guards let go.

    A store with a trash (`Trashes`) keeps what goes for `retention.trash_days` more; from another one it goes at once.
    What cannot be removed is reported as delayed, and tried again by the next pass.

    Args:
        store: The sessions.
        retention: The rules; in mode `warn` nothing is changed.
        in_use: Ids of sessions that are open in this process; they stay. One that another process saves meanwhile
            stays too, where the store has a trash.
        also: A store of what has left the contexts; what it holds of a session goes when that is removed for good.
        clock: Seconds since the epoch.

    Raises:
        StoreReadError: The sessions cannot be listed.
    """
    now = clock()
    entries = [entry async for entry in store.list()]
    trash = store if isinstance(store, Trashes) else None
    trashed = [one async for one in trash.trashed()] if trash is not None else []
    plan = plan_retention(entries, retention, now=now, trashed=trashed, in_use=in_use)
    removed = {one.entry.session_id: one.reason for one in plan.removed}
    delayed = {one.entry.session_id: f"{one.reason}; {one.guard}" for one in plan.delayed}
    if retention.mode == "warn":
        return MaintenanceReport(mode="warn", plan=plan, removed=removed, delayed=delayed)
    # Who is open and not saved yet has stored what left its context already, under the id of what is in the trash.
    alive = {entry.session_id for entry in entries} | set(in_use)
    purged: list[str] = []
    if trash is not None:
        purged = await _purge(store, trash, plan, before=now - retention.trash_days * DAY_S, alive=alive, also=also)
    for one in plan.removed:
        problem = await _remove(store, one.entry, also=also)
        if problem is not None:
            delayed[one.entry.session_id] = f"{removed.pop(one.entry.session_id)}; {problem}"
    is_rotated = isinstance(store, RotatesIndex) and await _rotate(store, retention)
    return MaintenanceReport(
        mode="enforce", plan=plan, removed=removed, delayed=delayed, purged=purged, is_rotated=is_rotated
    )


async def _remove(store: SessionStore, entry: SessionEntry, *, also: Deletes | None) -> str | None:
    """Remove a session, and return why it stays where it does."""
    try:
        if isinstance(store, Trashes):
            is_moved = await store.trash(entry.session_id, saved_at=entry.updated_at)
            return None if is_moved else "it was saved or removed meanwhile"
        # First what nothing else points to: where that fails, the next pass finds the session again.
        if also is not None:
            await also.delete(entry.session_id)
        await store.delete(entry.session_id)
    except StoreError as exc:
        return f"it could not be removed: {exc}"
    return None


async def _purge(
    store: SessionStore,
    trash: Trashes,
    plan: MaintenancePlan,
    *,
    before: float,
    alive: Collection[str],
    also: Deletes | None,
) -> list[str]:
    done = []
    async with SessionLocks(timeout_s=0.0) as locks:
        for session_id in dict.fromkeys(one.session_id for one in plan.purged):
            try:
                # Who holds it elsewhere may have stored something already, and not saved the session yet.
                async with locks.hold(session_id, owner=plan, path=store.lock_path(session_id), note="maintenance"):
                    # As above: if the process dies in between, the next pass finds the session again.
                    if also is not None and session_id not in alive:
                        await also.delete(session_id)
                    await trash.purge(session_id, trashed_before=before)
            except (StoreError, SessionLockedError) as exc:
                logger.warning("Session %r could not be removed from the trash: %s", session_id[:200], exc)
            else:
                done.append(session_id)
    return done


async def _rotate(store: RotatesIndex, retention: Retention) -> bool:
    try:
        return await store.rotate_index(max_bytes=retention.rotate_index_bytes, keep=retention.keep_backups)
    except StoreError as exc:
        logger.warning("The index of the sessions could not be set aside: %s", exc)
        return False
