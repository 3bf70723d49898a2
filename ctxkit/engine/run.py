"""One run over one agent's context: its measures, and the steps in which every way of compressing ends, store and swap."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits
from ctxkit.engine.unfit import unfit_error
from ctxkit.errors import CtxkitError, StoreWriteError
from ctxkit.invariants import broken_rules
from ctxkit.offload.chain import StoredPlan
from ctxkit.plan import EditKind, Plan, Receipt, new_id
from ctxkit.port import Swap
from ctxkit.strategies.ladder import freed_tokens, leaving
from ctxkit.tokens import serve_loop

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
    """

    kit: Kit
    layers: Layers
    journal: Journal
    settings: Settings
    reason: Reason
    emit: EmitEvent
    plan_id: str = field(default_factory=new_id)
    keys: tuple[str, ...] = ()
    """Keys of the records of what leaves; empty where it is not in the guard's store."""
    problems: list[str] = field(default_factory=list)
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
        self.reading = await self.kit.gauge.read(self.kit.port)
        self.tokens_before = self.reading.tokens
        self.situation = await self.kit.gauge.situation(
            self.reading, self.kit.view(), self.kit.port.summary, self.settings
        )
        self.trigger_tokens = self.settings.trigger_tokens(self.reading.context_size)

    @property
    def limit_tokens(self) -> int:
        """Tokens that the request may have."""
        return self.settings.limit_tokens(self.reading.context_size)

    @property
    def layer_budget(self) -> float:
        """Tokens that the summary layer may have."""
        share = self.settings.summary.share_ratio * max(0, self.reading.context_size - self.situation.fixed_tokens)
        return min(share, _MOST_LAYER_TOKENS)

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

    async def commit(
        self, shortened: Shortened, layer: Layer | None, *, draft: Draft | None, reference: str | None
    ) -> Receipt:
        """Swap the context for what the edits leave of it; the last step, and the only one that changes the agent.

        Args:
            shortened: The edits, and what stands in place of what they shorten.
            layer: The new summary layer; `None` leaves the one that is there.
            draft: The summary in it.
            reference: Where what leaves is stored.

        Raises:
            ContextUnfitError: What they leave does not fit.
            StoreWriteError: It would fit, or gain something, had everything been stored.
        """
        view = self.situation.view
        context = apply_edits(view, shortened.edits, shortened.replacements, self.kit.codec)
        after = view.changed(context)
        await serve_loop()
        tokens_after = await self._tokens_after(context, layer)
        if self.kit.is_over(tokens_after, self.limit_tokens, self.reading.model_key):
            if not shortened.is_complete:
                raise not_stored("; ".join(shortened.problems))
            raise unfit_error(
                self.situation, shortened.edits, needed_tokens=tokens_after, limit_tokens=self.limit_tokens
            )
        await serve_loop()
        is_for_images = bool(shortened.edits) and all(edit.kind is EditKind.IMAGE for edit in shortened.edits)
        broken = broken_rules(
            view,
            after,
            tokens_before=self.tokens_before,
            tokens_after=tokens_after,
            must_shrink=not is_for_images,
        )
        if broken and not shortened.is_complete:
            raise not_stored("; ".join(shortened.problems))
        is_applied = False
        if broken:
            logger.warning("ctxkit made no change, for its plan would have broken a rule: %s", "; ".join(broken))
            self.problems.extend(broken)
        else:
            await self._secure(shortened, layer)
            is_applied = await self._swap(context, layer, draft)
            if not is_applied:
                self.problems.append("the context changed while it was being compressed")
        await self.tell(telemetry.PROGRESS, stage="swap", outcome="applied" if is_applied else "failed")
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome="applied" if is_applied else "failed",
            tokens_before=self.tokens_before,
            tokens_after=tokens_after if is_applied else self.tokens_before,
            limit_tokens=self.trigger_tokens,
            messages_compressed=len({place.message for place in leaving(shortened.edits)}),
            blocks_shortened=len(shortened.replacements),
            summary=draft.origin if draft is not None else "none",
            reference=reference,
            seconds=round(self.kit.clock() - self._started, 3),
            problems=tuple(self.problems),
        )

    def unneeded(self) -> Receipt:
        """Return the receipt of a run that found nothing to do.

        Raises:
            ContextUnfitError: The request does not fit all the same.
        """
        tokens, limit = self.tokens_before, self.limit_tokens
        if self.kit.is_over(tokens, limit, self.reading.model_key):
            raise unfit_error(self.situation, (), needed_tokens=tokens, limit_tokens=limit)
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome="unneeded",
            tokens_before=tokens,
            tokens_after=tokens,
            limit_tokens=self.trigger_tokens,
        )

    def failed(self, error: Exception) -> Receipt:
        """Return the receipt of a run that ended with an error; what was not measured by then is 0."""
        problem = str(error) if isinstance(error, CtxkitError) else f"{type(error).__name__}: {error}"
        return Receipt(
            plan_id=self.plan_id,
            reason=self.reason,
            outcome="failed",
            tokens_before=self.tokens_before,
            tokens_after=self.tokens_before,
            limit_tokens=self.trigger_tokens,
            seconds=round(self.kit.clock() - self._started, 3),
            problems=(*self.problems, problem),
        )

    async def _tokens_after(self, context: Sequence[Msg], layer: Layer | None) -> int:
        gauge, key = self.kit.gauge, self.reading.model_key
        weight = self.reading.weight
        weight -= await gauge.weigh_messages(self.situation.view.messages, model_key=key)
        weight += await gauge.weigh_messages(context, model_key=key)
        if layer is not None:
            weight -= await gauge.weigh_layer(self.kit.port.summary, model_key=key)
            weight += await gauge.weigh_layer(layer.pieces, model_key=key)
        return gauge.meter.estimate(weight, model_key=key)

    async def _secure(self, shortened: Shortened, layer: Layer | None) -> None:
        """Bring to disk what the swap rests on: the new summary, and the agent as it is before.

        Nothing of it stops the swap: what leaves is stored, so without the rest a crash costs work and no content.
        """
        if layer is None:
            await self.plan(shortened.edits, None)
        else:
            problem = await self.journal.summarise(self.plan_id, layer, self.keys)
            await self._tell_problem(telemetry.STORE_FAILED, problem, what="summary")
        _, problem = await self.kit.guard.attempt(self.kit.port.checkpoint)
        await self._tell_problem(telemetry.SESSION_SAVE_FAILED, problem)

    async def _tell_problem(self, name: str, problem: str | None, **value: object) -> None:
        if problem is not None:
            self.problems.append(problem)
            await self.tell(name, **value, problem=problem)

    async def _swap(self, context: Sequence[Msg], layer: Layer | None, draft: Draft | None) -> bool:
        """Commit in one step that a cancellation can delay but not tear."""
        swap = Swap(
            seen=self.situation.view.messages,
            seen_contents=self.situation.view.contents,
            context=context,
            summary=None if layer is None else layer.pieces,
            usage=None if draft is None else draft.usage,
        )
        commit = asyncio.ensure_future(self._swapped(swap, layer))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            self.is_cancelled = True  # told when the receipt is written
            return await commit

    async def _swapped(self, swap: Swap, layer: Layer | None) -> bool:
        """Swap the agent's context and remember the summary layer that goes with it."""
        if not await self.kit.port.swap(swap):
            return False
        if layer is not None:
            self.layers.remember(layer, self.plan_id)
        self.journal.applied(self.plan_id)
        return True


def not_stored(problem: str) -> StoreWriteError:
    """Return the error that says that something stays because it could not be stored."""
    return StoreWriteError(
        f"What would leave the context could not be stored ({problem}); nothing was removed. Mend the offloader."
    )
