"""One run over one agent's context: its measures, and the steps in which every way of compressing ends, store and swap."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.layer import layer_text
from ctxkit.engine.planned import Planned
from ctxkit.engine.steer.keep import keep_change, remember_change
from ctxkit.engine.unfit import unfit_error
from ctxkit.errors import CtxkitError, StoreWriteError
from ctxkit.invariants import broken_rules
from ctxkit.ledger import open_errors
from ctxkit.offload.chain import StoredPlan
from ctxkit.plan import EditKind, Plan, Receipt, new_id
from ctxkit.port import Swap
from ctxkit.strategies.ladder import LEAVING, freed_tokens
from ctxkit.tokens import serve_loop
from ctxkit.triggers import HYSTERESIS_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.journal import Journal
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layer, Layers
    from ctxkit.engine.shorten import Shortened
    from ctxkit.plan import Draft, Edit, Reason
    from ctxkit.port import EmitEvent
    from ctxkit.strategies import Situation
    from ctxkit.summary import SummaryState
    from ctxkit.triggers import Decision

logger = logging.getLogger("ctxkit")

_MOST_LAYER_TOKENS = 16_000
"""The summary layer never has more, however large the window: about what its state, saved with the agent, can hold."""


@dataclass(kw_only=True)
class Run:
    """One run; the context is untouched until the swap at its end.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
        journal: Where plans and summaries are written down.
        settings: How to compress.
        reason: Who asks.
        emit: Takes the events.
        decision: What made an automatic compression due; `None` where somebody asked for it.
    """

    kit: Kit
    layers: Layers
    journal: Journal
    settings: Settings
    reason: Reason
    emit: EmitEvent
    decision: Decision | None = None
    plan_id: str = field(default_factory=new_id)
    keys: tuple[str, ...] = ()
    """Keys of the records of what leaves; empty where it is not in the guard's store."""
    problems: list[str] = field(default_factory=list)
    taken: tuple[Msg, ...] = ()
    """The messages that have left the context, whole or in part."""
    is_prepared: bool = False
    """Whether the summary had been made in the background."""
    is_cancelled: bool = False
    """Whether a cancellation came while the context was being swapped, too late to stop it."""
    reading: Reading = field(init=False)
    """What the request weighs; set by `measure`, as is `situation`."""
    situation: Situation = field(init=False)
    tokens_before: int = field(init=False, default=0)
    trigger_tokens: int = field(init=False, default=0)
    """The tokens that a compression is due at."""
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.kit.clock()

    async def measure(self) -> None:
        """Measure the request and the context that the run is about."""
        self.reading = await self.kit.gauge.read(self.kit.port, unsure_factor=self.settings.window.estimate_factor)
        self.tokens_before = self.reading.tokens
        self.situation = await self.kit.gauge.situation(
            self.reading, self.kit.view(), self.kit.port.summary, self.settings
        )
        self.situation = replace(
            self.situation,
            pinned=self.kit.pins.in_place(self.situation, self.pins_room),
            open_errors=await open_errors(self.situation.view.messages),
        )
        if self.decision is None:
            before = self.situation.fixed_tokens + round(self.layer_tokens)
            per_estimate = self.kit.gauge.per_estimate(self.reading, self.settings.triggers.chars_per_token)
            self.trigger_tokens = self.settings.trigger_tokens(
                self.reading.context_size, fixed_tokens=before, per_estimate=per_estimate
            )
        else:
            self.trigger_tokens = self.decision.trigger_tokens

    @property
    def is_due(self) -> bool:
        """Whether more than what is oversized is to be made smaller."""
        return self.tokens_before >= self.trigger_tokens if self.decision is None else self.decision.is_due

    @property
    def goal_tokens(self) -> float:
        """Tokens that a request may have behind a compression."""
        return HYSTERESIS_RATIO * self.trigger_tokens if self.decision is None else self.decision.goal_tokens

    @property
    def worth_tokens(self) -> float:
        """Tokens that a compression must free to be worth a summary."""
        return 1 if self.decision is None else self.decision.worth_tokens

    @property
    def limit_tokens(self) -> int:
        """Tokens that the request may have."""
        return self.settings.limit_tokens(self.reading.context_size)

    @property
    def layer_budget(self) -> float:
        """Tokens that the summary layer may have."""
        share = self.settings.summary.share_ratio * max(0, self.reading.context_size - self.situation.fixed_tokens)
        return min(share, _MOST_LAYER_TOKENS)

    @property
    def layer_tokens(self) -> float:
        """Tokens of the summary layer that is there."""
        here = self.situation
        return max(0.0, here.request_tokens - here.fixed_tokens - sum(map(sum, here.tokens)))

    @property
    def pins_room(self) -> float:
        """Tokens that pins may take."""
        return self.settings.summary.pins_share_ratio * self.layer_budget

    async def tell(self, name: str, **value: object) -> None:
        """Tell an event of this run."""
        await self.emit(name, {"plan_id": self.plan_id, "reason": str(self.reason), **value})

    async def store(self, leaves: Sequence[Msg]) -> str | None:
        """Store what leaves; return its reference, or None where there is no offloader.

        Raises:
            StoreWriteError: It could not be stored, and so it stays; a request that is too large is sent as a smaller view.
        """
        stored = await self.kit.guard.store_messages(self.kit.port.session_id, leaves)
        self.keys = stored.keys
        self.kit.store_problem = stored.error
        if stored.error is None:
            return stored.reference
        self.problems.append(stored.error)
        await self.tell(telemetry.STORE_FAILED, what="messages", problem=stored.error)
        if stored.reference is None:
            raise not_stored(stored.error)
        return stored.reference

    async def plan(self, edits: Sequence[Edit], draft: Draft | None, *, focus: str | None = None) -> None:
        """Write down what is about to be done; a plan that cannot be stored is done all the same, for what leaves is.

        Args:
            edits: The edits.
            draft: The summary of what leaves; `None` where nothing does.
            focus: What it was asked to look after.
        """
        after = self.tokens_before - freed_tokens(self.situation, edits)
        plan = Plan(
            id=self.plan_id,
            reason=self.reason,
            edits=tuple(edits),
            tokens_before=self.tokens_before,
            tokens_after=round(after),
        )
        problem = await self.journal.plan(StoredPlan(plan=plan, keys=self.keys, draft=draft, focus=focus))
        await self._tell_problem(telemetry.STORE_FAILED, problem, what="plan")

    async def check(
        self,
        shortened: Shortened,
        layer: Layer | None = None,
        *,
        draft: Draft | None = None,
        learnt: SummaryState | None = None,
        reference: str | None = None,
        why: str = "",
    ) -> Planned:
        """Measure what edits leave of the context, and hold it against the rules; nothing is changed.

        Args:
            shortened: The edits, and what stands in place of what they shorten.
            layer: The new summary layer; `None` leaves the one that is there.
            draft: The summary in it.
            learnt: Where the layer stays: what it is made of, with the facts of what is cleared.
            reference: Where what leaves is stored.
            why: Why it is done.

        Raises:
            ContextUnfitError: What they leave does not fit.
            StoreWriteError: It would fit, or gain something, had everything been stored.
        """
        view, edits = self.situation.view, shortened.edits
        context = apply_edits(view, edits, shortened.replacements, self.kit.codec)
        after = view.changed(context)
        await serve_loop()
        was = self.kit.port.summary
        tokens_after = await self.kit.gauge.changed(
            self.reading, view.messages, context, layers=(was, was if layer is None else layer.pieces)
        )
        if self.kit.is_over(tokens_after, self.limit_tokens, self.reading.model_key):
            if not shortened.is_complete:
                raise not_stored("; ".join(shortened.problems))
            raise unfit_error(self.situation, edits, needed_tokens=tokens_after, limit_tokens=self.limit_tokens)
        await serve_loop()
        broken = broken_rules(
            view,
            after,
            tokens_before=self.tokens_before,
            tokens_after=tokens_after,
            must_shrink=not edits
            or (not self._is_by_turns(edits) and any(e.kind is not EditKind.IMAGE for e in edits)),
            pinned=self.situation.pinned,
            layer=layer_text(was if layer is None else layer.pieces),
        )
        if broken and not shortened.is_complete:
            raise not_stored("; ".join(shortened.problems))
        return Planned(
            edits=edits,
            context=context,
            tokens_after=tokens_after,
            stable_tokens=self.stable_tokens(edits, layer),
            shortened=len(shortened.replacements),
            is_complete=shortened.is_complete,
            layer=layer,
            learnt=learnt,
            draft=draft,
            reference=reference,
            awaits=self.awaits(edits) if draft is None and layer is not None else self.layers.awaited(),
            broken=broken,
            why=why,
        )

    def _is_by_turns(self, edits: Sequence[Edit]) -> bool:
        """Whether turns leave because there are too many of them: then no gain in tokens is asked for."""
        is_by_count = self.decision is not None and self.decision.keep_turns is not None
        return is_by_count and any(edit.rule == "drop_turns" for edit in edits)

    def awaits(self, edits: Sequence[Edit]) -> tuple[str, ...]:
        """Return the plans of which a summary is to come from memory, this one included where its edits drop anything."""
        is_dropped = any(edit.kind is EditKind.DROP for edit in edits)
        is_late = self.settings.summary.timing == "next_turn" and is_dropped
        return (*self.layers.awaited(), *((self.plan_id,) if is_late else ()))

    async def apply(self, planned: Planned) -> Receipt:
        """Swap the context for the planned one; the last step, and the only one that changes the agent."""
        is_applied = False
        if planned.broken:
            broken = "; ".join(planned.broken)
            logger.warning("ctxkit made no change, for its plan would have broken a rule: %s", broken)
            self.problems.extend(planned.broken)
        else:
            await self._secure(planned)
            is_applied = await self._swap(planned)
            if is_applied:
                self.taken = tuple(taken_away(self.situation.view, planned.edits, self.kit.codec))
            else:
                self.problems.append("the context changed while it was being compressed")
        await self.tell(telemetry.PROGRESS, stage="swap", outcome="applied" if is_applied else "failed")
        draft = planned.draft
        return replace(
            self._receipt("applied" if is_applied else "failed", why=planned.why),
            tokens_after=planned.tokens_after if is_applied else self.tokens_before,
            messages_compressed=len({edit.message for edit in planned.edits if _takes_away(edit)}),
            blocks_shortened=planned.shortened,
            summary="none" if draft is None else draft.origin,
            reference=planned.reference,
            rules=planned.rules,
            usage=None if draft is None else draft.usage,
            is_prepared=self.is_prepared,
            stable_tokens=planned.stable_tokens if is_applied else self.tokens_before,
            seconds=round(self.kit.clock() - self._started, 3),
        )

    def nothing(self, why: str) -> Planned:
        """Return the plan of a run that found nothing to do.

        Args:
            why: Why there is nothing.

        Raises:
            ContextUnfitError: The request does not fit all the same.
        """
        tokens, limit = self.tokens_before, self.limit_tokens
        if self.kit.is_over(tokens, limit, self.reading.model_key):
            raise unfit_error(self.situation, (), needed_tokens=tokens, limit_tokens=limit)
        return Planned(tokens_after=tokens, stable_tokens=tokens, why=why)

    def unneeded(self, planned: Planned) -> Receipt:
        """Return the receipt of a run that found nothing to do."""
        return replace(self._receipt("unneeded", why=planned.why), stable_tokens=planned.stable_tokens)

    def failed(self, error: Exception) -> Receipt:
        """Return the receipt of a run that ended with an error; what was not measured by then is 0."""
        problem = str(error) if isinstance(error, CtxkitError) else f"{type(error).__name__}: {error}"
        self.problems.append(problem)
        return replace(self._receipt("failed"), seconds=round(self.kit.clock() - self._started, 3))

    def _receipt(self, outcome: Literal["applied", "unneeded", "failed"], *, why: str = "") -> Receipt:
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome=outcome,
            tokens_before=self.tokens_before,
            tokens_after=self.tokens_before,
            limit_tokens=self.trigger_tokens,
            why=why,
            problems=tuple(self.problems),
        )

    def stable_tokens(self, edits: Sequence[Edit], layer: Layer | None) -> int:
        """Return the tokens before the first byte that changes: in the summary layer, or else in the context."""
        here, layer_tokens = self.situation, self.layer_tokens
        before = layer_text(self.kit.port.summary)
        if layer is not None and before != (after := layer_text(layer.pieces)):
            pairs = zip(before, after, strict=False)
            alike = next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))
            return round(here.fixed_tokens + layer_tokens * alike / max(1, len(before)))
        first = min(((edit.message, edit.start) for edit in edits), default=(len(here.tokens), 0))
        rows = sum(map(sum, here.tokens[: first[0]]))
        part = sum(here.tokens[first[0]][: first[1]]) if first[0] < len(here.tokens) else 0.0
        return round(here.fixed_tokens + layer_tokens + rows + part)

    async def _secure(self, planned: Planned) -> None:
        """Bring to disk what the swap rests on: the new summary, and the agent as it is before.

        Nothing of it stops the swap: what leaves is stored, so without the rest a crash costs work and no content.
        """
        if planned.layer is None:
            await self.plan(planned.edits, None)
        else:
            problem = await self.journal.summarise(self.plan_id, planned.layer, self.keys)
            await self._tell_problem(telemetry.STORE_FAILED, problem, what="summary")
        problem = await keep_change(self, planned)
        await self._tell_problem(telemetry.STORE_FAILED, problem, what="change")
        _, problem = await self.kit.guard.attempt(self.kit.port.checkpoint)
        await self._tell_problem(telemetry.SESSION_SAVE_FAILED, problem)

    async def _tell_problem(self, name: str, problem: str | None, **value: object) -> None:
        if problem is not None:
            self.problems.append(problem)
            await self.tell(name, **value, problem=problem)

    async def _swap(self, planned: Planned) -> bool:
        """Commit in one step that a cancellation can delay but not tear."""
        layer, draft = planned.layer, planned.draft
        swap = Swap(
            seen=self.situation.view.messages,
            seen_contents=self.situation.view.contents,
            context=() if planned.context is None else planned.context,
            summary=None if layer is None else layer.pieces,
            usage=None if draft is None else draft.usage,
        )
        commit = asyncio.ensure_future(self._swapped(swap, planned))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            self.is_cancelled = True  # told when the receipt is written
            return await commit

    async def _swapped(self, swap: Swap, planned: Planned) -> bool:
        """Swap the agent's context and remember what its summary layer is made of."""
        if not await self.kit.port.swap(swap):
            return False
        if planned.layer is not None:
            self.layers.remember(planned.layer, self.plan_id, awaits=planned.awaits)
        elif planned.learnt is not None:
            self.layers.learn(planned.learnt)
        remember_change(self.kit.port.slot, self.plan_id)
        self.journal.applied(self.plan_id)
        return True


def not_stored(problem: str) -> StoreWriteError:
    """Return the error that says that something stays because it could not be stored."""
    return StoreWriteError(
        f"What would leave the context could not be stored ({problem}); nothing was removed. Mend the offloader."
    )


def _takes_away(edit: Edit) -> bool:
    """Whether an edit takes blocks away."""
    return edit.kind in LEAVING and edit.start < edit.stop
