"""The engine of one agent: it measures, decides, and carries out; all that it keeps is about this agent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctxkit import telemetry
from ctxkit.engine.bring_in import BringIn
from ctxkit.engine.compress import Compression
from ctxkit.engine.draft import Drafts
from ctxkit.engine.hooks import Hooks
from ctxkit.engine.journal import Journal
from ctxkit.engine.kit import Kit
from ctxkit.engine.layer import Layers
from ctxkit.engine.prepare import Preparer
from ctxkit.engine.request import RequestFitter
from ctxkit.engine.run import Run
from ctxkit.engine.session_limits import settings_for
from ctxkit.engine.steer.desk import Desk
from ctxkit.engine.watch import Watch
from ctxkit.plan import Reason
from ctxkit.sessions.lanes import GLOBAL, PROCESS_LANES, session_lane, summary_lane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.prepare import Preparation
    from ctxkit.engine.watch import Look
    from ctxkit.offload import OffloadGuard
    from ctxkit.plan import Receipt
    from ctxkit.port import AgentPort, Codec, EmitEvent, ModelPort
    from ctxkit.tokens import Counter
    from ctxkit.triggers import Decision

_TARGETS = 32
"""How many requests' learnt targets are kept."""


class Engine(Kit):
    """One agent's engine: its kit, and what drives it.

    Args:
        port: The agent.
        codec: Builds and parses the host's blocks.
        counter: The prior tokenizer.
        guard: Stores what leaves the context.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        port: AgentPort,
        codec: Codec,
        *,
        counter: Counter,
        guard: OffloadGuard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(port, codec, counter=counter, guard=guard, clock=clock)
        self.receipts: deque[Receipt] = deque(maxlen=64)
        self._layers = Layers(self)
        self._journal = Journal(self, self._layers)
        self._drafts = Drafts(self, self._layers)
        self._watch = Watch(self)
        self._preparer = Preparer(self, self._layers, self._journal, self._drafts)
        self._asked_in: str | None = None
        """The reply in which it was last asked what memory has written."""
        self._busy: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self.steer = Desk(
            self,
            self._layers,
            self._drafts,
            begin=lambda settings, reason, emit: self._run(settings, reason, emit, decision=None),
            alone=self._alone,
            rest=self.rest_after_undo,
        )
        """See what a compression would do, take one back, and say what must stay."""

    @property
    def last_receipt(self) -> Receipt | None:
        """What came of the last compression, if there was one."""
        return self.receipts[-1] if self.receipts else None

    async def look(self, settings: Settings) -> Look:
        """Measure the next request and what is new in the context; costs what is new."""
        self.pins.settle(is_reply_over=False)
        look = await self._watch.look(settings_for(settings, self.port.session_id))
        self._preparer.looked()
        return look

    def begins(self) -> None:
        """Take note that a reply begins, or goes on after its user was waited for."""
        self._preparer.paused()

    async def trigger_tokens(self, settings: Settings) -> int:
        """Return the tokens at which an automatic compression will be due if no better moment comes before."""
        return await self._watch.foresee(settings)

    def rest_after_undo(self, turns: int) -> None:
        """Try no automatic compression for so many turns, as long as requests are safe to fit."""
        self._watch.rest_after_undo(turns)

    async def held_back(self, settings: Settings) -> str | None:
        """Return why no automatic compression is tried now, in words; `None` where nothing holds one back."""
        return await self._watch.held_back(settings)

    def can_wait(self, look: Look, settings: Settings) -> bool:
        """Whether a compression that is due is left to a later step, since its summary is being made and there is room.

        Args:
            look: What was seen before the step.
            settings: How to compress.
        """
        is_due = look.decision is not None and look.decision.is_due
        has_room = look.tokens + look.growth_tokens <= self._limit(settings)
        return is_due and has_room and self._preparer.is_running and not self._preparer.is_ready

    async def preparation(self, look: Look, settings: Settings) -> Preparation | None:
        """Return what `prepare` needs, where it is time to make a summary in the background; measures the context.

        Args:
            look: What was seen before the step.
            settings: How to summarise.
        """
        if not self._preparer.is_time(look, settings, limit_tokens=self._limit(settings)):
            return None
        await self._journal.look()
        if self._preparer.is_ready:
            return None  # an earlier process has made it
        tokens, floor = look.tokens, look.floor_tokens
        due = None if look.decision is None else look.decision.ahead(tokens=tokens, floor_tokens=floor)
        run = self._run(settings, Reason.TRIGGER, self._tell_trouble, decision=due)
        chosen = await Compression(run=run, drafts=self._drafts).choose()
        return self._preparer.begin(run, chosen.edits)

    async def prepare(self, preparation: Preparation) -> None:
        """Make a summary beside the agent's work; the context stays as it is until a compression uses it.

        Raises:
            StoreWriteError: What would leave could not be stored.
            SummaryError: No model made a summary.
        """
        try:
            await self._preparer.carry_out(preparation)
        except Exception as exc:
            with suppress(ReferenceError):  # the agent is gone, and with it whatever would wait
                self._watch.failed(exc)
            raise

    async def compress(
        self, settings: Settings, *, reason: Reason, emit: EmitEvent, focus: str | None = None, force: bool = False
    ) -> Receipt:
        """Compress where it is due; one compression of a session at a time, or of the process where its lane says so.

        What fails leaves a receipt and is told as well as raised; what is cancelled leaves none.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored, and so it stays.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        session_id = self.port.session_id
        # Nothing is asked of a model beside a summary that is being made, and no reply waits for that one.
        is_hurried = reason is Reason.TRIGGER and self._preparer.is_running and settings.fallback_to_truncation
        first = [] if is_hurried else [summary_lane(session_id)]
        is_global = settings.summary.lane == "global" and not is_hurried
        lanes = [session_lane(session_id), *([GLOBAL] if is_global else [])]
        async with PROCESS_LANES.enter(*first), self._lock(), PROCESS_LANES.enter(*lanes):
            decision = self._watch.decision if reason is Reason.TRIGGER else None
            run = self._run(settings, reason, emit, decision=decision)
            hooks = Hooks(run)
            compression = self.steer.compression(run, focus=focus, force=force, may_ask=not is_hurried, hooks=hooks)
            try:
                receipt = await compression.carry_out()
            except Exception as exc:
                failed = run.failed(exc)
                self.receipts.append(failed)
                self._watch.failed(exc)
                await emit(telemetry.FAILED, failed.to_json())
                await hooks.after(failed)
                raise
            self.receipts.append(receipt)
            self._watch.ended(receipt, settings)
            self._preparer.ended(receipt)
            await hooks.after(receipt)
            if run.is_cancelled:
                raise asyncio.CancelledError
            return receipt

    def awaited(self) -> tuple[str, ...]:
        """Return the plans in whose place a stub stands until memory's summary is there; asked for once a turn.

        Empty but at the first time in a turn: what memory writes meanwhile is taken in the next one.
        """
        turn, self._asked_in = self._asked_in, self.port.reply_id
        return () if turn == self._asked_in else self._layers.awaited()

    async def bring_in(self, texts: Mapping[str, str], settings: Settings, *, emit: EmitEvent) -> Receipt:
        """Put summaries that memory has written where stubs stood, as a change that can be explained and taken back.

        Args:
            texts: The summaries by the plans that `awaited` named.
            settings: How much room they may have.
            emit: Takes the event.
        """
        async with self._alone(False):
            receipt = await BringIn(
                run=self._run(settings, Reason.MEMORY, emit, decision=None), texts=texts
            ).carry_out()
            self.receipts.append(receipt)
            return receipt

    def _run(self, settings: Settings, reason: Reason, emit: EmitEvent, *, decision: Decision | None) -> Run:
        return Run(
            kit=self,
            layers=self._layers,
            journal=self._journal,
            settings=settings_for(settings, self.port.session_id),
            reason=reason,
            emit=emit,
            decision=decision,
        )

    @asynccontextmanager
    async def _alone(self, with_summaries: bool) -> AsyncIterator[None]:
        """Keep other changes of the agent's context out, and other summaries of its session where they are told to."""
        session_id = self.port.session_id
        first = [summary_lane(session_id)] if with_summaries else []
        async with PROCESS_LANES.enter(*first), self._lock(), PROCESS_LANES.enter(session_lane(session_id)):
            yield

    async def _tell_trouble(self, name: str, value: Mapping[str, Any]) -> None:
        """Take the events of a run in the background: what could not be stored is told at the next step."""
        if name == telemetry.STORE_FAILED:
            self.tell_later(name, **value)

    def _limit(self, settings: Settings) -> int:
        """Return the tokens that a request may have."""
        return settings.limit_tokens(self.gauge.window(self.port.model))

    def _lock(self) -> asyncio.Lock:
        """Return the lock of the running event loop: an agent may live through several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._busy is None or self._busy[0] is not loop:
            self._busy = (loop, asyncio.Lock())
        return self._busy[1]

    def fitter(
        self,
        model: ModelPort,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]],
        *,
        settings: Settings,
    ) -> RequestFitter:
        """Return what fits one request of the host to one model."""
        while len(self.learnt_targets) > _TARGETS:
            self.learnt_targets.popitem(last=False)
        return RequestFitter(self, model, messages, tools, settings=settings)
