"""The chain of a session's compressions in its store: what was planned, and the summaries that stand for what left.

Both are records beside the messages, in the same order: the messages of a compression first, then its plan, then its
summary, and only then the agent's context is changed.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ctxkit.errors import StoreError
from ctxkit.offload.changes import CHANGE, ORIGINAL, UNDONE, undone_key
from ctxkit.offload.names import fsname
from ctxkit.offload.provenance import SUMMARY as SUMMARISED
from ctxkit.offload.store import BLOB, Record
from ctxkit.plan import Draft, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxkit.offload.store import Entry, Store

logger = logging.getLogger("ctxkit.offload")

PLAN: Final = "plan"
"""Kind of a record that says what a compression is about to do."""
SUMMARY: Final = "summary"
"""Kind of a record that holds what a summary layer is made of, and which messages it stands for."""
CHAIN: Final = frozenset({PLAN, SUMMARY, CHANGE, ORIGINAL, UNDONE})
"""The kinds of records that tell of compressions; they are no part of what an agent reads back."""

_MOST_BYTES: Final = 1 << 20
"""A longer record is left alone: what ctxkit writes has some kB and about 200 bytes for each message that leaves."""


@dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """What a compression is about to do."""

    plan: Plan
    keys: tuple[str, ...] = ()
    """Keys of the records of the messages that leave, oldest first."""
    draft: Draft | None = None
    """Their summary; `None` where nothing leaves."""
    focus: str | None = None
    """What the summary was asked to look after."""
    reference: str | None = None
    """Where the messages that leave are stored."""
    layer: str | None = None
    """The `digest` of the summary layer that the summary continues; `None` where it is not known."""
    is_prepared: bool = False
    """The summary was made in the background, before it was due."""

    def record(self) -> Record:
        """Return its record; a plan of the same edits of the same messages is the same one."""
        draft = None if self.draft is None else self.draft.to_json()
        plan = {**self.plan.to_json(), "keys": self.keys}
        digest = blake2b(json.dumps([plan["edits"], plan["keys"]]).encode(), digest_size=16).hexdigest()
        about = {"focus": self.focus, "reference": self.reference, "layer": self.layer, "is_prepared": self.is_prepared}
        return _record(PLAN, self.plan.id, digest, {**plan, "draft": draft, **about})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StoredPlan:
        """Return the plan of a record's body."""
        plan = {name: data[name] for name in ("id", "reason", "edits", "tokens_before", "tokens_after")}
        draft = None if data["draft"] is None else Draft.from_json(data["draft"])
        return cls(
            plan=Plan.from_json(plan),
            keys=tuple(data["keys"]),
            draft=draft,
            focus=data["focus"],
            reference=data.get("reference"),
            layer=data.get("layer"),
            is_prepared=bool(data.get("is_prepared")),
        )


@dataclass(frozen=True, kw_only=True)
class StoredSummary:
    """What a summary layer is made of."""

    plan_id: str
    """The plan that made it."""
    state: Mapping[str, Any]
    """`SummaryState` as JSON, its ledger included."""
    digest: str
    """What tells the text of the layer from others: the `digest` of `ctxkit.engine.layer.Layer`."""
    keys: tuple[str, ...]
    """Keys of the records of the messages that left with it, oldest first; what left before, the summaries before it say."""
    previous: str | None = None
    """The plan of the summary that it continues."""
    sequence: int = 0
    """Its place in the session: what was stored behind it, it does not stand for. 0 before it is stored."""

    def record(self) -> Record:
        """Return its record; the same text that came of the same plan is the same one."""
        fields = {name: value for name, value in vars(self).items() if name != "sequence"}
        return _record(SUMMARY, self.plan_id, self.digest, fields)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, sequence: int) -> StoredSummary:
        """Return the summary of a record's body."""
        return cls(
            plan_id=data["plan_id"],
            state=dict(data["state"]),
            digest=data["digest"],
            keys=tuple(data["keys"]),
            previous=data["previous"],
            sequence=sequence,
        )


class Chain:
    """The plans and summaries of one session, as they stood in its store when it was read.

    Args:
        store: Gives the bodies, one at a time and only where they are asked for.
        plans: Entries of the plans, oldest first.
        summaries: Entries of the summaries, oldest first.
        keys: Keys of all other records.
    """

    def __init__(self, store: Store, plans: Sequence[Entry], summaries: Sequence[Entry], keys: frozenset[str]) -> None:
        self._store = store
        self._plans = plans
        self._summaries = summaries
        self._keys = keys

    @classmethod
    async def read(cls, store: Store, session_id: str) -> Chain:
        """List a session; no body is read.

        Raises:
            StoreReadError: The session cannot be read.
        """
        plans: list[Entry] = []
        summaries: list[Entry] = []
        keys: set[str] = set()
        async for entry in store.list(session_id):
            if entry.kind == PLAN:
                plans.append(entry)
            elif entry.kind == SUMMARY:
                summaries.append(entry)
            elif entry.kind == UNDONE and entry.key is not None:
                keys.add(f"{entry.key.partition(':')[0]}:")
            elif entry.kind != BLOB and entry.key is not None:
                keys.add(entry.key)
        return cls(store, plans, summaries, frozenset(keys))

    async def plans(self, *, after: str | None, most: int) -> list[StoredPlan]:
        """Return the newest plans whose messages are all there.

        Args:
            after: Id of a plan: only those stored behind it; all where it is None or not there.
            most: How many are read at most.

        Returns:
            The newest one first; what cannot be read is left out, and logged.
        """
        found: list[StoredPlan] = []
        start = "" if after is None else _key_start(PLAN, after)
        for entry in self._plans[::-1][:most]:
            if start and (entry.key or "").startswith(start):
                break
            body = await self._body(entry)
            try:
                plan = None if body is None else StoredPlan.from_json(body)
            except (KeyError, TypeError, ValueError) as exc:
                _ignored(entry, f"it is no plan ({exc!r})")
                continue
            if plan is not None and self._is_in_force(plan.plan.id) and self._is_whole(entry, plan.keys):
                found.append(plan)
        return found

    async def summary(self, *, digest: str | None = None, most: int | None = None) -> StoredSummary | None:
        """Return the newest summary that was not taken back and whose messages are all there; None where there is none.

        Args:
            digest: Only one of a layer with this digest.
            most: How many are read at most; all where None.
        """
        for entry in self._summaries[::-1][:most]:
            body = await self._body(entry)
            try:
                summary = None if body is None else StoredSummary.from_json(body, sequence=entry.sequence or 0)
            except (KeyError, TypeError, ValueError) as exc:
                _ignored(entry, f"it is no summary ({exc!r})")
                continue
            if summary is None or digest not in (None, summary.digest):
                continue
            if not self._is_in_force(summary.plan_id):
                continue
            if self._is_whole(entry, summary.keys):
                return summary
        return None

    def _is_in_force(self, plan_id: str) -> bool:
        """Whether a plan was not taken back."""
        return undone_key(plan_id) not in self._keys

    def _is_whole(self, entry: Entry, keys: Sequence[str]) -> bool:
        missing = [key for key in keys if key not in self._keys]
        if missing:
            _ignored(
                entry, f"of the {len(keys)} messages that it names {len(missing)} are not there, as {missing[0]!r}"
            )
        return not missing

    async def _body(self, entry: Entry) -> Mapping[str, Any] | None:
        if entry.size > _MOST_BYTES:
            _ignored(entry, f"it has {entry.size} bytes")
            return None
        try:
            body = json.loads(await self._store.get(entry.reference, entry.offset, entry.size))
        except (StoreError, ValueError, RecursionError) as exc:
            _ignored(entry, f"it cannot be read ({type(exc).__name__}: {exc})")
            return None
        if not isinstance(body, dict):
            _ignored(entry, "it is no object")
            return None
        return body


async def newest_summary(store: Store, session_id: str) -> StoredSummary | None:
    """Return the newest summary of a session whose messages are all stored; None where there is none.

    Args:
        store: Where the session is.
        session_id: The session.

    Raises:
        StoreReadError: The session cannot be read.
    """
    return await (await Chain.read(store, session_id)).summary()


def _record(kind: str, plan_id: str, digest: str, fields: Mapping[str, Any]) -> Record:
    body = json.dumps({"type": f"ctxkit.{kind}", **fields}, ensure_ascii=False)
    return Record(key=f"{_key_start(kind, plan_id)}{digest}", body=body, kind=kind, provenance=SUMMARISED)


def _key_start(kind: str, plan_id: str) -> str:
    return f"{fsname(f'{kind}-{plan_id}')}:"


def _ignored(entry: Entry, why: str) -> None:
    logger.warning("record %s of kind %r is ignored: %s", entry.sequence, entry.kind, why)
