"""A summary made in the background before it is due: a plan that is stored, and carried out when its time has come.

No reasoning step waits for it, so it holds neither the engine's lock nor the session's lane; on the summary's lane two of
one session never run at once. It works on what the context was when it began, and is used only where all of that still
stands.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import taken_away
from ctxkit.engine.journal import TakenBlocks
from ctxkit.engine.pace import Pace
from ctxkit.errors import SummaryError
from ctxkit.offload.chain import StoredPlan
from ctxkit.plan import EditKind, Plan
from ctxkit.sessions.lanes import GLOBAL, PROCESS_LANES, summary_lane

if TYPE_CHECKING:
    from ctxkit.config import Settings
    from ctxkit.engine.draft import Drafts
    from ctxkit.engine.journal import Journal
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.engine.run import Run
    from ctxkit.engine.watch import Look
    from ctxkit.offload import Store
    from ctxkit.plan import Draft, Edit, Receipt

logger = logging.getLogger("ctxkit")

_SLOT = "pace"


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """A summary that is about to be made, on a context as it was."""

    run: Run
    """Has measured the context; the context is not changed by it."""
    edits: tuple[Edit, ...]
    """What is to leave."""
    seen: TakenBlocks
    """The blocks that these are."""
    session_id: str
    store: Store | None
    """What is stored before a summary is asked for is stored here."""
    layer: str
    """The digest of the summary layer that was there."""
    started: float


class Preparer:
    """Prepares the summaries of one agent, one at a time.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
        journal: Where plans are written down, and found again.
        drafts: Makes the summaries.
    """

    def __init__(self, kit: Kit, layers: Layers, journal: Journal, drafts: Drafts) -> None:
        self._kit = kit
        self._layers = layers
        self._journal = journal
        self._drafts = drafts
        saved = kit.port.slot.get(_SLOT)
        self._pace = Pace.from_json(saved)
        self._floor = _whole(saved.get("floor")) if isinstance(saved, dict) else 0
        """Tokens that the last compression left."""
        self._step: tuple[str, float] | None = None
        """The reply that the last step was of, and when; `None` where the time until the next one is no measure."""
        self._failed_at: int | None = None
        """Tokens of the request at which there was none to be had; None where one was made since."""
        self._idle_at: int | None = None
        """Tokens of the request at which one would have stood for too little; None where one was applied since."""

    def looked(self) -> None:
        """Take the time of a reasoning step, and let go of a summary that can no longer be used."""
        reply_id, now = self._kit.port.reply_id, self._kit.clock()
        if self._step is not None and self._step[0] == reply_id:
            self._keep(self._pace.after_step(now - self._step[1]))
        self._step = (reply_id, now)
        self.settle()

    def paused(self) -> None:
        """Take no time until the next step: a reply that waits for its user says nothing of how long steps take."""
        self._step = None

    def settle(self) -> None:
        """Let go of a prepared summary that no longer stands for anything in the context: it is told, and charged."""
        stored = self._journal.prepared()
        problem = None if stored is None else self._journal.changed(stored, self._kit.view())
        if stored is not None and problem is not None:
            self._journal.forget(stored.plan.id)
            let_go(self._kit, stored.plan.id, stored.draft, problem)

    def ended(self, receipt: Receipt) -> None:
        """Learn from a compression how long a summary takes, and let go of what it has made useless."""
        self.paused()  # a step in which a compression was waited for is no measure
        if receipt.outcome == "applied":
            self._failed_at = self._idle_at = None
            self._floor = receipt.tokens_after
            is_timed = receipt.summary not in {"none", "extractive"} and not receipt.is_prepared
            self._keep(self._pace.after_summary(receipt.seconds) if is_timed else self._pace)
            self.settle()

    @property
    def is_running(self) -> bool:
        """Whether a summary of the session is being made, for whomever."""
        return PROCESS_LANES.is_busy(summary_lane(self._kit.port.session_id))

    @property
    def is_ready(self) -> bool:
        """Whether a summary has been prepared, as far as is known."""
        return self._journal.prepared() is not None

    def is_time(self, look: Look, settings: Settings, *, limit_tokens: int) -> bool:
        """Whether a summary is to be begun before the next reasoning step.

        Args:
            look: What was seen before the step.
            settings: How to summarise.
            limit_tokens: Tokens that a request may have.
        """
        if not settings.summary.prepare or look.decision is None or self._is_resting(look, settings):
            return False
        if self.is_running or self.is_ready:
            return False
        growth = look.growth_tokens
        if look.decision.is_due:
            # Late: the reply goes on without a summary where there is room until it is there.
            return self._pace.is_measured and look.tokens + growth * (self._pace.steps + 1) <= limit_tokens
        floor = max(look.floor_tokens, self._floor)
        return look.tokens >= self._pace.start_tokens(look.trigger_tokens, floor_tokens=floor, growth_tokens=growth)

    def begin(self, run: Run, edits: tuple[Edit, ...]) -> Preparation | None:
        """Return what `carry_out` needs, or None where it would stand for too little or a summary is there already.

        Too little is less than half of what one that is made at the trigger would stand for.

        Args:
            run: Has measured the context.
            edits: What a compression would do to it now.
        """
        leaving = tuple(edit for edit in edits if edit.kind is EditKind.COMPRESS)
        is_little = sum(edit.tokens for edit in leaving) < run.trigger_tokens - run.tokens_before
        if not leaving or is_little or any(self._journal.unfinished(run.situation, focus=None, settings=run.settings)):
            self._idle_at = run.tokens_before
            return None
        return Preparation(
            run=run,
            edits=leaving,
            seen=TakenBlocks.of(run.situation.view, leaving, pinned=self._kit.pins.ids()),
            session_id=self._kit.port.session_id,
            store=self._kit.guard.store,
            layer=self._layers.digest(),
            started=self._kit.clock(),
        )

    async def carry_out(self, preparation: Preparation) -> None:
        """Store what is to leave, make its summary, and write both down as a plan; the context stays as it is.

        Cancellation leaves at once; what was stored by then is stored once, whoever stores it again.

        Raises:
            StoreWriteError: What would leave could not be stored.
            SummaryError: No model made a summary.
        """
        run, settings = preparation.run, preparation.run.settings
        lanes = [summary_lane(preparation.session_id), *([GLOBAL] if settings.summary.lane == "global" else [])]
        async with PROCESS_LANES.enter(*lanes):
            try:
                await self._made(preparation)
            except Exception:
                self._failed_at = run.tokens_before
                raise

    async def _made(self, preparation: Preparation) -> None:
        run, kit = preparation.run, self._kit
        view = run.situation.view
        leaves = taken_away(view, preparation.edits, kit.codec)
        reference = await run.store(leaves)
        tokens = sum(edit.tokens for edit in preparation.edits)
        draft = await self._drafts.make(run.reading, view, leaves, tokens=tokens, settings=run.settings, focus=None)
        seconds = kit.clock() - preparation.started
        if draft.origin == "extractive":
            kit.charge(draft)
            why = "; ".join(draft.failures) or "the model gave none"
            msg = f"No summary could be prepared ({why}); it is tried again when it is due."
            raise SummaryError(msg)
        self._keep(self._pace.after_summary(seconds))
        if draft.checked is not None:
            kit.tell_later(telemetry.VERIFIED, plan_id=run.plan_id, **draft.checked.to_json())
        problem = self._problem(preparation)
        if problem is not None:
            let_go(kit, run.plan_id, draft, problem)
            return
        plan = Plan(
            id=run.plan_id,
            reason=run.reason,
            edits=preparation.edits,
            tokens_before=run.tokens_before,
            tokens_after=run.tokens_before - tokens,
        )
        stored = StoredPlan(
            plan=plan, keys=run.keys, draft=draft, reference=reference, layer=preparation.layer, is_prepared=True
        )
        problem = await self._journal.prepare(stored, session_id=preparation.session_id, seen=preparation.seen)
        if problem is not None:
            kit.tell_later(telemetry.STORE_FAILED, what="plan", problem=problem)
        kit.tell_later(
            telemetry.PREPARED,
            plan_id=run.plan_id,
            messages=len(leaves),
            seconds=round(seconds, 3),
            summary=draft.origin,
        )

    def _problem(self, preparation: Preparation) -> str | None:
        """Return why a summary that has been made cannot be used, or None."""
        try:
            port = self._kit.port
            if port.session_id != preparation.session_id:
                return "the agent has gone over to another session"
            if self._kit.guard.store is not preparation.store:
                return "the agent stores elsewhere by now"
            if self._layers.digest() != preparation.layer:
                return "the summary that it continues is no longer there"
            return preparation.seen.problem(self._kit.view(), pinned=self._kit.pins.ids())
        except ReferenceError:
            return None  # the agent is gone: whoever goes on with its session finds the summary in the store

    def _is_resting(self, look: Look, settings: Settings) -> bool:
        """Whether there was none to be had, and the context has not come half of the way to its trigger since.

        Where one stood for too little, that is so as well, but not beyond the trigger, where it stands for enough.
        """
        is_due = look.decision is not None and look.decision.is_due
        since = [at for at in (self._failed_at, None if is_due else self._idle_at) if at is not None]
        least = settings.triggers.min_gain_ratio * look.trigger_tokens
        return any(look.tokens < at + max(least, (look.trigger_tokens - at) / 2) for at in since)

    def _keep(self, pace: Pace) -> None:
        """Remember the pace, in the agent's state too."""
        self._pace = pace
        try:
            self._kit.port.slot[_SLOT] = {**pace.to_json(), "floor": self._floor}
        except ReferenceError:
            logger.debug("the agent whose pace was measured is gone")


def _whole(value: object) -> int:
    """Return a number of tokens that was saved; 0 where it is none."""
    return max(0, value) if isinstance(value, int) else 0


def let_go(kit: Kit, plan_id: str, draft: Draft | None, problem: str) -> None:
    """Tell that a summary which was prepared cannot be used, and charge what it cost.

    Args:
        kit: The agent's kit.
        plan_id: The plan that it belongs to.
        draft: The summary.
        problem: Why it cannot be used.
    """
    logger.info("ctxkit cannot use the summary that it prepared (plan %s): %s", plan_id, problem)
    kit.tell_later(telemetry.PREPARED_REJECTED, plan_id=plan_id, problem=problem)
    if draft is not None:
        kit.charge(draft)
