"""One agent and its session: who holds it, what was saved last, and what is to be told."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import ref

from ctxkit import telemetry
from ctxkit.errors import NewerFormatError, StaleOwnerError, StoreError, StoreReadError, StoreWriteError
from ctxkit.host._attached import attached_to
from ctxkit.host._changes import session_changes
from ctxkit.host._session_restore import Restoring, guard_of, has_own_context, to_json
from ctxkit.host._session_state import dump_state
from ctxkit.host.context_config import settings_of
from ctxkit.offload.capabilities import Fences
from ctxkit.offload.redact import redact_json, redactor_of
from ctxkit.plan import Reason
from ctxkit.port import SLOT
from ctxkit.sessions import Peeks, SessionEntry, SessionKey
from ctxkit.sessions.unanswered import note_observed
from ctxkit.strategies.history_limit import HistoryLimitStrategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from agentscope.agent import Agent

    from ctxkit.host._session_restore import Restored, RestoreRule
    from ctxkit.offload import Store
    from ctxkit.plan import Receipt
    from ctxkit.sessions import Hold, SavedSession, SessionLocks, SessionStore

logger = logging.getLogger("ctxkit.sessions")


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """How the sessions of all agents of one middleware are kept."""

    store: SessionStore
    locks: SessionLocks | None
    rule: RestoreRule
    max_turns: int
    agent_id: str
    delivery: Mapping[str, str]
    """Where answers go of sessions that say nothing of it."""
    timeout_s: float
    """Seconds that loading or saving one may take."""


class AgentSession:
    """One agent's session, as long as the agent lives; it does not keep the agent alive.

    Args:
        agent: The agent; its session is that of its state as it is now.
        keeping: How it is kept.
    """

    def __init__(self, agent: Agent, keeping: Keeping) -> None:
        self._ref = ref(agent)
        self._name = agent.name
        self._state = agent.state
        self.keeping = keeping
        self.session_id = agent.state.session_id
        key = SessionKey.find(self.session_id)
        self._unset_delivery = dict(keeping.delivery) or ({} if key is None else key.delivery)
        """Where answers go as long as neither the session nor the application says it."""
        self._row = SessionEntry(
            session_id=self.session_id, updated_at=0.0, agent_id=keeping.agent_id, delivery=self._unset_delivery
        )
        self._delivery: Mapping[str, str] | None = None
        self._hold: Hold | None = None
        self._bodies = 0
        self._epoch: int | None = None
        self._had_own = has_own_context(agent)
        self._is_attached = False
        self._is_advanced = False
        self._is_lost = False
        self._is_unsaved = False
        self._known: frozenset[str] | None = None
        """Ids of the messages in what is saved; `None` where nothing is."""
        self._views: list[tuple[Store, Store]] = []
        self._last_plan: str | None = None
        self._events: list[tuple[str, dict[str, Any]]] = []

    @property
    def agent(self) -> Agent:
        """The agent.

        Raises:
            ReferenceError: It is gone.
        """
        agent = self._ref()
        if agent is None:
            msg = "the agent that this session belongs to is gone"
            raise ReferenceError(msg)
        return agent

    def is_of(self, agent: Agent) -> bool:
        """Whether the agent still has the state and the session id that it had."""
        return agent.state is self._state and agent.state.session_id == self.session_id

    @property
    def is_busy(self) -> bool:
        """Whether a reply, or something else for which the session was taken, runs now."""
        return self._bodies > 0

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever saved of it."""
        return self._is_attached and self._known is None

    # Who holds it

    @asynccontextmanager
    async def owned(self, note: str, *, nested: bool = False, is_hook: bool = False) -> AsyncIterator[None]:
        """Own the session while the body runs.

        Args:
            note: What for, which others are told.
            nested: Whether an owner of this agent's that holds it already will do.
            is_hook: Whether the body runs also where the lock cannot be written, though nothing is saved then.

        Raises:
            SessionLockedError: Another owner held it all the time.
            StoreWriteError: The lock cannot be written, and this is no hook.
        """
        async with self._locked(note, nested=nested, is_hook=is_hook):
            self._bodies += 1
            try:
                yield
            finally:
                self._bodies -= 1

    @asynccontextmanager
    async def _locked(self, note: str, *, nested: bool, is_hook: bool) -> AsyncIterator[None]:
        locks, store = self.keeping.locks, self.keeping.store
        if locks is None or (nested and self._hold is not None):
            yield
            return
        path = store.lock_path(self.session_id)
        name = self.session_id if path is not None else f"{self.session_id} of {type(store).__name__} {id(store):#x}"
        try:
            hold = await locks.take(name, owner=object(), path=path, note=f"agent {self._name}: {note}")
        except StoreError as exc:
            if not is_hook:
                raise
            logger.warning("session %r could not be locked: %s", self.session_id, exc)
            self.tell(telemetry.SESSION_SAVE_FAILED, problem=str(exc))
            yield
            return
        try:
            self._hold, self._views, self._is_lost = hold, [], False
            await self._fence(hold.epoch)
            yield
        finally:
            self._hold, self._views = None, []
            await hold.release()

    async def _fence(self, epoch: int) -> None:
        """Refuse all owners before this one, and find out whether there was another one since."""
        store = self.keeping.store
        try:
            if self._epoch is not None:
                try:
                    await store.fence(self.session_id, self._epoch)
                except StaleOwnerError:
                    self._is_advanced = True
            try:
                await store.fence(self.session_id, epoch)
            except StaleOwnerError:
                if not isinstance(store, Peeks):
                    raise
                epoch = await store.epoch(self.session_id) + 1  # the lock's files were lost, and the clock went back
                await store.fence(self.session_id, epoch)
        except StoreError as exc:
            self._is_advanced = self._is_attached  # for all that is known
            logger.warning("session %r could not be fenced: %s", self.session_id, exc)
        self._epoch = epoch

    async def fence_offload(self) -> None:
        """Let what leaves the agent's context be stored under this owner's number, where the store can tell owners apart."""
        epoch = self._epoch
        guard = guard_of(self.agent)
        store = guard.store
        if self._hold is None or epoch is None or not isinstance(store, Fences):
            return
        if any(one is store for one, _ in self._views):
            return
        # Under the guard's deadline: a store that hangs holds no reply up.
        view, problem = await guard.attempt(store.fence, self.session_id, epoch)
        if problem is not None:
            # The session store has taken this owner, and the lock is held: it may write.
            logger.warning("the offload store of session %r could not be fenced: %s", self.session_id, problem)
            view = store
        self._views.append((store, view))

    def store_for(self, store: Store) -> Store:
        """Return a store as this owner may write to it; see `Hold.store_for`."""
        return next((view for one, view in self._views if one is store), store)

    async def touch(self) -> None:
        """Give a sign of life; see `Hold.touch`."""
        if self._hold is not None:
            self._hold.touch()

    def extend(self, seconds: float) -> None:
        """Let the hold last for so many seconds from now on, without another sign of life."""
        if self._hold is not None:
            self._hold.extend(seconds)

    # What is given to the agent

    async def refresh(self) -> Restored | None:
        """Give the agent its session where it is new, or where another owner has gone on; call it while owning.

        Raises:
            NewerFormatError: A newer ctxkit has saved it.
            StoreReadError: It cannot be read.
        """
        if self._is_attached and not self._is_advanced:
            return None
        saved = await self._load()
        restored = None if saved is None else await self._take(saved)
        self._is_attached = True
        # Who reads without the lock may have read what another owner is about to replace.
        self._is_advanced = self.keeping.locks is not None and self._hold is None
        if restored is not None:
            self._tell_restored(restored)
        return restored

    async def _load(self) -> SavedSession | None:
        timeout_s = self.keeping.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self.keeping.store.load(self.session_id)
        except TimeoutError as exc:
            msg = f"Loading session {self.session_id!r} took more than {timeout_s:g} s: see what its store waits for."
            raise StoreReadError(msg) from exc

    async def _take(self, saved: SavedSession) -> Restored | None:
        changed = session_changes(saved.state.get("middle_context"))
        restoring = Restoring(
            self.agent,
            rule=changed.get("rule", self.keeping.rule),
            max_turns=changed.get("max_turns", self.keeping.max_turns),
        )
        restored = None
        if self._had_own and not self._is_attached:
            await restoring.leave(saved)
        else:
            if self._is_unsaved:
                await restoring.secure(self.agent.state.context)
            restored = await restoring.give(saved, known=self._known or (), is_start=not self._is_attached)
        self._known = restoring.given
        self._is_unsaved = restored is None
        delivery = saved.entry.delivery or self._unset_delivery
        self._row = replace(saved.entry, agent_id=self.keeping.agent_id, total_tokens_fresh=False, delivery=delivery)
        return restored

    async def refresh_if_possible(self) -> None:
        """Refresh for a reply: a session that cannot be read is not saved over, and asked for again at the next one.

        Raises:
            NewerFormatError: A newer ctxkit has saved it; this one would write over what it does not understand.
        """
        try:
            await self.refresh()
        except NewerFormatError:
            raise
        except Exception as exc:  # a hook's door
            logger.exception("session %r of agent %r could not be loaded", self.session_id, self._name)
            self.tell(telemetry.SESSION_SAVE_FAILED, problem=f"the saved session could not be loaded: {exc}")

    def _tell_restored(self, restored: Restored) -> None:
        logger.info("agent %r was given session %r: %s", self._name, self.session_id, restored)
        self.tell(telemetry.SESSION_RESTORED, **to_json(restored))
        if restored.repairs:
            self.tell(telemetry.REPAIRED, repairs=list(restored.repairs))

    def note_observed(self) -> None:
        """Note what the agent has observed before its first request: unlike that one, it is not sent again."""
        state = self.agent.state
        slot = state.middle_context.setdefault(SLOT, {})
        is_answered = bool(state.summary) or any(message.role != "user" for message in state.context)
        note_observed(slot, [message.id for message in state.context], is_answered=is_answered)

    # What is saved

    async def save(self) -> None:
        """Save the agent's state as it is now; see `Hold.save`.

        Raises:
            SessionLockedError: Another owner holds the session.
            StaleOwnerError: Another owner has taken it over.
            StoreReadError: What was saved before could not be loaded, and must not be written over.
            StoreWriteError: It could not be saved; the state saved before stays.
        """
        self._is_unsaved = True
        async with self.owned("save", nested=True):
            if not self._is_attached or self._is_advanced:
                msg = (
                    f"Session {self.session_id!r} may have been changed by another owner, and was not loaded since: it "
                    "must not be written over. Attach the agent, or let it reply."
                )
                raise StoreReadError(msg)
            if self._is_lost:
                msg = (
                    f"Session {self.session_id!r} was taken over by another owner: it is loaded anew at the next reply."
                )
                raise StaleOwnerError(msg)
            try:
                dumped = await dump_state(self.agent.state)
            except ValueError as exc:
                msg = f"The state of session {self.session_id!r} is no plain JSON: {exc}. Look at what middlewares keep in it."
                raise StoreWriteError(msg) from exc
            redactor = redactor_of(settings_of(self.agent.context_config).privacy)
            if redactor is not None:
                dumped = await redact_json(dumped, redactor)
            self._row = self._entry()
            try:
                await self.keeping.store.save(self.session_id, dumped, entry=self._row, epoch=self._epoch)
            except StaleOwnerError as exc:
                self._lose(exc)
                raise
            self._known = frozenset(message["id"] for message in dumped["context"])
            self._is_unsaved = False

    async def save_if_possible(self) -> None:
        """Save after a reply; what goes wrong is logged and told, once for a session that was lost or not loaded."""
        self._is_unsaved = True
        if self._is_lost or not self._is_attached or self._is_advanced:
            return
        try:
            await self.save()
        except StaleOwnerError:
            return  # told already
        except Exception as exc:  # a hook's door
            logger.exception("session %r of agent %r could not be saved", self.session_id, self._name)
            self.tell(telemetry.SESSION_SAVE_FAILED, problem=f"{type(exc).__name__}: {exc}")

    def _lose(self, exc: StaleOwnerError) -> None:
        self._is_lost = True
        logger.warning("agent %r has lost session %r: %s", self._name, self.session_id, exc)
        self.tell(telemetry.SESSION_LOST, problem=str(exc))

    def deliver_to(self, delivery: Mapping[str, str]) -> None:
        """Say where answers go, from the next save on."""
        self._delivery = dict(delivery)

    def measured(self, total_tokens: int) -> None:
        """Remember what a request and its answer took, as the provider reports it."""
        self._row = replace(self._row, total_tokens=total_tokens, total_tokens_fresh=True)

    def _entry(self) -> SessionEntry:
        return replace(
            self._row,
            context_tokens=self.agent.model.context_size,
            compaction_count=self._row.compaction_count + self._new_compactions(),
            delivery=dict(self._row.delivery if self._delivery is None else self._delivery),
        )

    def _new_compactions(self) -> int:
        """Return how many compressions were applied since this was asked last."""
        attached = attached_to(self.agent)
        applied = [] if attached is None else [r.plan_id for r in attached.engine.receipts if _is_compaction(r)]
        if not applied:
            return 0
        since = applied.index(self._last_plan) + 1 if self._last_plan in applied else 0
        self._last_plan = applied[-1]
        return len(applied) - since

    # What is told

    def tell(self, name: str, **value: Any) -> None:
        """Keep an event for the next moment at which the host's stream can take it."""
        self._events.append((name, {"session_id": self.session_id, "agent": self._name, **value}))

    def take_events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that were kept, and forget them."""
        events, self._events = self._events, []
        return events


def _is_compaction(receipt: Receipt) -> bool:
    """Whether an index counts it: a limit of the history only hides, and what memory brings in was counted when it left."""
    is_only_hidden = receipt.rules == (HistoryLimitStrategy.name,)
    return receipt.outcome == "applied" and receipt.reason is not Reason.MEMORY and not is_only_hidden
