"""One compression: measure, plan, draft a summary, store, swap, in this order and each told to whoever listens."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import clear_context
from ctxkit.engine.unfit import unfit_error
from ctxkit.errors import ContextUnfitError, CtxkitError, StoreWriteError, SummaryError
from ctxkit.invariants import broken_rules
from ctxkit.plan import Draft, Edit, EditKind, Reason, Receipt, new_id
from ctxkit.port import Swap
from ctxkit.strategies.ladder import freed_tokens, leaving, plan_ladder, shorten_more
from ctxkit.tokens import serve_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.engine import Engine
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.layer import Layer
    from ctxkit.engine.shorten import Shortened
    from ctxkit.port import EmitEvent
    from ctxkit.strategies import Situation
    from ctxkit.view import View

logger = logging.getLogger("ctxkit")

_LEAST_LAYER_SHARE = 0.4
"""Share of its budget that the summary layer has at least, where the reserve would leave less."""
_LEAST_LAYER_TOKENS = 160
"""Room for the line that says what left and where it is, and a little more."""
_MOST_LAYER_TOKENS = 16_000
"""The summary layer never has more, however large the window: about what its state, saved with the agent, can hold."""

HYSTERESIS_RATIO = 0.9
"""A compression aims at this share of its trigger at most, so that the next step does not trigger again."""


@dataclass(kw_only=True)
class Compression:
    """One run over one agent's context; the context is untouched until the swap at its end.

    Args:
        engine: The agent's engine.
        settings: How to compress.
        reason: Who asks.
        emit: Takes the events.
        focus: What the summary must look after, in the user's words.
        force: Compress even below the trigger.
    """

    engine: Engine
    settings: Settings
    reason: Reason
    emit: EmitEvent
    focus: str | None = None
    force: bool = False
    plan_id: str = field(default_factory=new_id)
    problems: list[str] = field(default_factory=list)
    is_cancelled: bool = False
    """Whether a cancellation came while the context was being swapped, too late to stop it."""
    _started: float = field(init=False)
    _tokens_before: int = field(init=False, default=0)
    _limit_tokens: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._started = self.engine.clock()

    async def run(self) -> Receipt:
        """Compress where it is due.

        Returns:
            What came of it; `unneeded` where nothing was due or nothing could be gained.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored, and so it stays.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        started = self._started
        reading = await self.engine.gauge.read(self.engine.port)
        self._tokens_before = reading.tokens
        view = self.engine.view()
        situation = await self.engine.gauge.situation(reading, view, self.engine.port.summary, self.settings)
        self._limit_tokens = trigger = self.settings.trigger_tokens(reading.context_size)
        due = self.force or reading.tokens >= trigger
        edits = self._edits(situation, trigger=trigger) if due else plan_ladder(situation, keep_tokens=None)
        try:
            if not edits:
                return self._unneeded(reading, situation, trigger)
            await self._tell(
                telemetry.STARTED,
                tokens_before=reading.tokens,
                limit_tokens=trigger,
                context_size=reading.context_size,
            )
            receipt = await self._carry_out(reading, situation, edits, trigger=trigger, started=started)
        except ContextUnfitError as unfit:
            receipt = await self._last_resort(unfit, reading, situation, trigger=trigger, started=started)
        await self.emit(telemetry.DONE if receipt.outcome == "applied" else telemetry.FAILED, receipt.to_json())
        return receipt

    def failed(self, error: Exception) -> Receipt:
        """Return the receipt of a run that ended with an error; what was not measured by then is 0."""
        problem = str(error) if isinstance(error, CtxkitError) else f"{type(error).__name__}: {error}"
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome="failed",
            tokens_before=self._tokens_before,
            tokens_after=self._tokens_before,
            limit_tokens=self._limit_tokens,
            seconds=round(self.engine.clock() - self._started, 3),
            problems=(*self.problems, problem),
        )

    def _edits(self, situation: Situation, *, trigger: int) -> tuple[Edit, ...]:
        """Return the edits of a compression that is due: how much stays is settled before the summary is asked for."""
        window = situation.context_size
        goal = min(trigger, situation.request_tokens) * HYSTERESIS_RATIO
        request = sum(sum(situation.tokens[index]) for index in situation.view.latest_request)
        layer = _LEAST_LAYER_SHARE * self.layer_budget(situation)
        room = goal - situation.fixed_tokens - layer - request
        keep = max(0.0, min(self.settings.reserve_ratio * window, room))
        edits = plan_ladder(situation, keep_tokens=keep)
        compressed = sum(edit.tokens for edit in edits if edit.kind is EditKind.COMPRESS)
        worth = self.settings.triggers.min_gain_ratio * window if self.reason is Reason.TRIGGER else 1
        if compressed < worth and not self.force:
            # Too little for a summary to pay: what stays is shortened instead, or nothing is done.
            limit = self.settings.limit_tokens(window)
            small = plan_ladder(situation, keep_tokens=None)
            free = situation.request_tokens - freed_tokens(situation, small) - goal
            if situation.request_tokens > limit and free > 0:
                small = shorten_more(situation, small, free_tokens=free)
            if situation.request_tokens - freed_tokens(situation, small) <= limit or compressed == 0:
                return small
        return edits

    async def _last_resort(
        self, unfit: ContextUnfitError, reading: Reading, situation: Situation, *, trigger: int, started: float
    ) -> Receipt:
        """Keep the last step alone, without asking a model; where not even that fits, refuse or clear."""
        edits = plan_ladder(situation, keep_tokens=0)
        over = situation.request_tokens - freed_tokens(situation, edits) + _LEAST_LAYER_TOKENS
        free = over - self.settings.limit_tokens(situation.context_size)
        edits = shorten_more(situation, edits, free_tokens=free) if free > 0 else edits
        if self.settings.fallback_to_truncation and leaving(edits):
            try:
                return await self._carry_out(
                    reading, situation, edits, trigger=trigger, started=started, is_last_resort=True
                )
            except ContextUnfitError as exc:
                unfit = exc
        if self.settings.overflow.on_unfit != "clear":
            raise unfit
        logger.warning("ctxkit clears the context of agent %r: %s", self.engine.port.name, unfit)
        return await clear_context(self, reading, situation, trigger=trigger, started=started)

    async def _carry_out(
        self,
        reading: Reading,
        situation: Situation,
        edits: tuple[Edit, ...],
        *,
        trigger: int,
        started: float,
        is_last_resort: bool = False,
    ) -> Receipt:
        engine = self.engine
        view = situation.view
        leaves = taken_away(view, edits, engine.codec)
        await self._tell(telemetry.PROGRESS, stage="plan", messages=len(leaves), edits=len(edits))

        draft: Draft | None = None
        layer: Layer | None = None
        reference: str | None = None
        if leaves:
            tokens = sum(edit.tokens for edit in edits if edit.kind is EditKind.COMPRESS)
            # Stored before the summary is asked for: a store that is down costs no model call.
            reference = await self.store(leaves)
            await self._tell(telemetry.PROGRESS, stage="store", reference=reference)
            if is_last_resort:
                draft = await engine.drafts.collect(reading, leaves, settings=self.settings)
            else:
                draft = await self._draft(reading, situation, leaves, tokens)
            await self._tell(telemetry.PROGRESS, stage="summary", summary=draft.origin)
            layer = await engine.layers.next(
                leaves,
                draft,
                reference=reference,
                tokens=tokens,
                budget_tokens=self._layer_room(situation, edits, goal=trigger * HYSTERESIS_RATIO),
                keeps=apply_edits(view, edits, {}, engine.codec),
                settings=self.settings,
                model_key=reading.model_key,
            )
        edits = await self._fitted(
            situation, edits, layer, goal=trigger * HYSTERESIS_RATIO, model_key=reading.model_key
        )
        shortened = await engine.shortener(self.settings, reading.model_key).carry_out(view, edits)
        self.problems.extend(shortened.problems)
        for problem in shortened.problems:
            await self._tell(telemetry.STORE_FAILED, what="content", problem=problem)
        try:
            return await self.commit(
                reading, situation, shortened, layer, draft=draft, reference=reference, trigger=trigger, started=started
            )
        except ContextUnfitError as exc:
            if shortened.is_complete:
                raise
            raise _not_stored("; ".join(shortened.problems)) from exc

    async def _draft(self, reading: Reading, situation: Situation, leaves: Sequence[Msg], tokens: int) -> Draft:
        draft = await self.engine.drafts.make(
            reading, situation.view, leaves, tokens=tokens, settings=self.settings, focus=self.focus
        )
        self.problems.extend(draft.failures)
        if draft.origin == "extractive" and not self.settings.fallback_to_truncation:
            why = "; ".join(draft.failures) or "the model gave none"
            msg = (
                f"No summary could be had ({why}) and compression_fallback_to_truncation is off, so the context was left "
                "as it is: turn it on, or try again."
            )
            raise SummaryError(msg)
        return draft

    async def store(self, leaves: Sequence[Msg]) -> str | None:
        """Store what leaves; return its reference, or None where there is no offloader.

        Raises:
            StoreWriteError: It could not be stored, and so it stays; a request that is too large is sent as a smaller view.
        """
        stored = await self.engine.guard.store_messages(self.engine.port.session_id, leaves)
        if stored.error is None:
            return stored.reference
        self.problems.append(stored.error)
        await self._tell(telemetry.STORE_FAILED, what="messages", problem=stored.error)
        if stored.reference is None:
            raise _not_stored(stored.error)
        return stored.reference

    async def _fitted(
        self, situation: Situation, edits: tuple[Edit, ...], layer: Layer | None, *, goal: float, model_key: str
    ) -> tuple[Edit, ...]:
        """Return the edits with as much more shortening as the summary layer makes necessary."""
        if layer is None:
            return edits
        before = await self.engine.gauge.pieces_tokens(self.engine.port.summary, model_key=model_key)
        over = situation.request_tokens - freed_tokens(situation, edits) + layer.tokens - before - goal
        return shorten_more(situation, edits, free_tokens=over) if over > 0 else edits

    async def commit(
        self,
        reading: Reading,
        situation: Situation,
        shortened: Shortened,
        layer: Layer | None,
        *,
        draft: Draft | None,
        reference: str | None,
        trigger: int,
        started: float,
    ) -> Receipt:
        """Swap the context for what the edits leave of it; the last step, and the only one that changes the agent.

        Raises:
            ContextUnfitError: What they leave does not fit.
        """
        engine, view = self.engine, situation.view
        context = apply_edits(view, shortened.edits, shortened.replacements, engine.codec)
        after = view.changed(context)
        await serve_loop()
        tokens_after = await self._tokens_after(reading, view, context, layer)
        limit = self.settings.limit_tokens(reading.context_size)
        if self.engine.is_over(tokens_after, limit, reading.model_key):
            raise unfit_error(situation, shortened.edits, needed_tokens=tokens_after, limit_tokens=limit)
        await serve_loop()
        is_for_images = bool(shortened.edits) and all(edit.kind is EditKind.IMAGE for edit in shortened.edits)
        broken = broken_rules(
            view,
            after,
            tokens_before=reading.tokens,
            tokens_after=tokens_after,
            must_shrink=not is_for_images,
        )
        outcome = "applied"
        if broken:
            logger.warning("ctxkit made no change, for its plan would have broken a rule: %s", "; ".join(broken))
            self.problems.extend(broken)
            outcome = "failed"
        elif not await self._swap(view, context, layer, draft):
            self.problems.append("the context changed while it was being compressed")
            outcome = "failed"
        await self._tell(telemetry.PROGRESS, stage="swap", outcome=outcome)
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome=outcome,  # type: ignore[arg-type]  # one of the two literals above
            tokens_before=reading.tokens,
            tokens_after=tokens_after if outcome == "applied" else reading.tokens,
            limit_tokens=trigger,
            messages_compressed=len({place.message for place in leaving(shortened.edits)}),
            blocks_shortened=len(shortened.replacements),
            summary=draft.origin if draft is not None else "none",
            reference=reference,
            seconds=round(engine.clock() - started, 3),
            problems=tuple(self.problems),
        )

    async def _tokens_after(self, reading: Reading, view: View, context: Sequence[Msg], layer: Layer | None) -> int:
        gauge, key = self.engine.gauge, reading.model_key
        weight = reading.weight
        weight -= await gauge.weigh_messages(view.messages, model_key=key)
        weight += await gauge.weigh_messages(context, model_key=key)
        if layer is not None:
            weight -= await gauge.weigh_layer(self.engine.port.summary, model_key=key)
            weight += await gauge.weigh_layer(layer.pieces, model_key=key)
        return gauge.meter.estimate(weight, model_key=key)

    def _layer_room(self, situation: Situation, edits: tuple[Edit, ...], *, goal: float) -> int:
        """Return the tokens that the summary layer may have beside what edits leave: its budget, or less to meet the goal."""
        budget = self.layer_budget(situation)
        stays = situation.fixed_tokens + sum(map(sum, situation.tokens)) - freed_tokens(situation, edits)
        wanted = max(goal - stays, _LEAST_LAYER_SHARE * budget)
        return max(0, int(min(wanted, self.settings.limit_tokens(situation.context_size) - stays, budget)))

    async def _swap(self, view: View, context: Sequence[Msg], layer: Layer | None, draft: Draft | None) -> bool:
        """Commit in one step that a cancellation can delay but not tear."""
        swap = Swap(
            seen=view.messages,
            seen_contents=view.contents,
            context=context,
            summary=None if layer is None else layer.pieces,
            usage=None if draft is None else draft.usage,
        )
        commit = asyncio.ensure_future(self.engine.commit(swap, layer))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            self.is_cancelled = True  # told when the receipt is written
            return await commit

    def layer_budget(self, situation: Situation) -> float:
        """Return the tokens that the summary layer may have."""
        share = self.settings.summary.share_ratio * max(0, situation.context_size - situation.fixed_tokens)
        return min(share, _MOST_LAYER_TOKENS)

    def _unneeded(self, reading: Reading, situation: Situation, trigger: int) -> Receipt:
        limit = self.settings.limit_tokens(reading.context_size)
        if self.engine.is_over(reading.tokens, limit, reading.model_key):
            raise unfit_error(situation, (), needed_tokens=reading.tokens, limit_tokens=limit)
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome="unneeded",
            tokens_before=reading.tokens,
            tokens_after=reading.tokens,
            limit_tokens=trigger,
        )

    async def _tell(self, name: str, **value: object) -> None:
        await self.emit(name, {"plan_id": self.plan_id, "reason": str(self.reason), **value})


def _not_stored(problem: str) -> StoreWriteError:
    return StoreWriteError(
        f"What would leave the context could not be stored ({problem}); nothing was removed. Mend the offloader."
    )
