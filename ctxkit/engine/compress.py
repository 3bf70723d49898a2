"""One compression: measure, plan, store, draft a summary, swap, in this order and each told to whoever listens."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import clear_context
from ctxkit.errors import ContextUnfitError, SummaryError
from ctxkit.plan import EditKind, Reason
from ctxkit.strategies.ladder import freed_tokens, leaving, plan_ladder, shorten_more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.engine.draft import Drafts
    from ctxkit.engine.journal import Unfinished
    from ctxkit.engine.layer import Layer
    from ctxkit.engine.run import Run
    from ctxkit.plan import Draft, Edit, Receipt

logger = logging.getLogger("ctxkit")

_LEAST_LAYER_SHARE = 0.4
"""Share of its budget that the summary layer has at least, where the reserve would leave less."""
_LEAST_LAYER_TOKENS = 160
"""Room for the line that says what left and where it is, and a little more."""

HYSTERESIS_RATIO = 0.9
"""A compression aims at this share of its trigger at most, so that the next step does not trigger again."""


@dataclass(frozen=True, kw_only=True)
class Compression:
    """Decides what one run does to a context, from the cheapest way to the last resort.

    Args:
        run: The run.
        drafts: Makes the summaries.
        focus: What the summary must look after, in the user's words.
        force: Compress even below the trigger.
    """

    run: Run
    drafts: Drafts
    focus: str | None = None
    force: bool = False

    async def carry_out(self) -> Receipt:
        """Compress where it is due.

        Returns:
            What came of it; `unneeded` where nothing was due or nothing could be gained.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored, and so it stays.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        run = self.run
        await run.measure()
        due = self.force or run.tokens_before >= run.trigger_tokens
        edits = self._edits() if due else plan_ladder(run.situation, keep_tokens=None)
        if due:
            await run.journal.look()
        unfinished = self._unfinished(edits)
        if unfinished is not None:
            run.plan_id, edits = unfinished.plan_id, unfinished.edits
        try:
            if not edits:
                return run.unneeded()
            await run.tell(
                telemetry.STARTED,
                tokens_before=run.tokens_before,
                limit_tokens=run.trigger_tokens,
                context_size=run.reading.context_size,
            )
            receipt = await self._apply(edits, unfinished=unfinished)
        except ContextUnfitError as unfit:
            receipt = await self._last_resort(unfit)
        await run.emit(telemetry.DONE if receipt.outcome == "applied" else telemetry.FAILED, receipt.to_json())
        return receipt

    @property
    def _goal(self) -> float:
        """Tokens that a request may have behind a compression."""
        return self.run.trigger_tokens * HYSTERESIS_RATIO

    def _edits(self) -> tuple[Edit, ...]:
        """Return the edits of a compression that is due: how much stays is settled before the summary is asked for."""
        run, situation = self.run, self.run.situation
        window = situation.context_size
        goal = min(run.trigger_tokens, situation.request_tokens) * HYSTERESIS_RATIO
        request = sum(sum(situation.tokens[index]) for index in situation.view.latest_request)
        layer = _LEAST_LAYER_SHARE * run.layer_budget
        room = goal - situation.fixed_tokens - layer - request
        keep = max(0.0, min(run.settings.reserve_ratio * window, room))
        edits = plan_ladder(situation, keep_tokens=keep)
        compressed = sum(edit.tokens for edit in edits if edit.kind is EditKind.COMPRESS)
        worth = run.settings.triggers.min_gain_ratio * window if run.reason is Reason.TRIGGER else 1
        if compressed < worth and not self.force:
            # Too little for a summary to pay: what stays is shortened instead, or nothing is done.
            small = plan_ladder(situation, keep_tokens=None)
            free = situation.request_tokens - freed_tokens(situation, small) - goal
            if situation.request_tokens > run.limit_tokens and free > 0:
                small = shorten_more(situation, small, free_tokens=free)
            if situation.request_tokens - freed_tokens(situation, small) <= run.limit_tokens or compressed == 0:
                return small
        return edits

    def _unfinished(self, edits: Sequence[Edit]) -> Unfinished | None:
        """Return a plan that was stored and not applied, if it takes away of what the edits would, and enough of it.

        Where more has come since, its cut lies a little before theirs; but its summary has been paid for.
        """
        run, situation, gone = self.run, self.run.situation, leaving(edits)
        goal = min(run.trigger_tokens, situation.request_tokens)
        if not gone:
            return None
        for plan in run.journal.unfinished(situation, focus=self.focus, settings=run.settings):
            left = situation.request_tokens - freed_tokens(situation, plan.edits)
            if leaving(plan.edits) <= gone and left + _LEAST_LAYER_SHARE * run.layer_budget <= goal:
                return plan
        return None

    async def _last_resort(self, unfit: ContextUnfitError) -> Receipt:
        """Keep the last step alone, without asking a model; where not even that fits, refuse or clear."""
        run, situation = self.run, self.run.situation
        edits = plan_ladder(situation, keep_tokens=0)
        over = situation.request_tokens - freed_tokens(situation, edits) + _LEAST_LAYER_TOKENS
        free = over - run.limit_tokens
        edits = shorten_more(situation, edits, free_tokens=free) if free > 0 else edits
        if run.settings.fallback_to_truncation and leaving(edits):
            try:
                return await self._apply(edits, is_last_resort=True)
            except ContextUnfitError as exc:
                unfit = exc
        if run.settings.overflow.on_unfit != "clear":
            raise unfit
        logger.warning("ctxkit clears the context of agent %r: %s", run.kit.port.name, unfit)
        return await clear_context(run)

    async def _apply(
        self, edits: tuple[Edit, ...], *, unfinished: Unfinished | None = None, is_last_resort: bool = False
    ) -> Receipt:
        run, kit, view = self.run, self.run.kit, self.run.situation.view
        leaves = taken_away(view, edits, kit.codec)
        await run.tell(telemetry.PROGRESS, stage="plan", messages=len(leaves), edits=len(edits))

        draft: Draft | None = None
        layer: Layer | None = None
        reference: str | None = None
        if leaves:
            tokens = sum(edit.tokens for edit in edits if edit.kind is EditKind.COMPRESS)
            # Stored before the summary is asked for: a store that is down costs no model call.
            reference = await run.store(leaves)
            await run.tell(telemetry.PROGRESS, stage="store", reference=reference)
            if unfinished is not None and unfinished.keys == run.keys:
                draft = unfinished.draft
                await run.tell(telemetry.PLAN_RESUMED)
            else:
                draft = await self._draft(leaves, tokens, is_last_resort=is_last_resort)
                await run.plan(edits, draft, focus=self.focus)
            await run.tell(telemetry.PROGRESS, stage="summary", summary=draft.origin)
            layer = await run.layers.next(
                leaves,
                draft,
                reference=reference,
                tokens=tokens,
                budget_tokens=self._layer_room(edits),
                keeps=apply_edits(view, edits, {}, kit.codec),
                settings=run.settings,
                model_key=run.reading.model_key,
            )
            edits = await self._fitted(edits, layer)
        shortened = await kit.shortener(run.settings, run.reading.model_key).carry_out(view, edits)
        run.problems.extend(shortened.problems)
        for problem in shortened.problems:
            await run.tell(telemetry.STORE_FAILED, what="content", problem=problem)
        return await run.commit(shortened, layer, draft=draft, reference=reference)

    async def _draft(self, leaves: Sequence[Msg], tokens: int, *, is_last_resort: bool) -> Draft:
        run = self.run
        if is_last_resort:
            return await self.drafts.collect(run.reading, leaves, settings=run.settings)
        draft = await self.drafts.make(
            run.reading, run.situation.view, leaves, tokens=tokens, settings=run.settings, focus=self.focus
        )
        run.problems.extend(draft.failures)
        if draft.origin == "extractive" and not run.settings.fallback_to_truncation:
            why = "; ".join(draft.failures) or "the model gave none"
            msg = (
                f"No summary could be had ({why}) and compression_fallback_to_truncation is off, so the context was left "
                "as it is: turn it on, or try again."
            )
            raise SummaryError(msg)
        return draft

    async def _fitted(self, edits: tuple[Edit, ...], layer: Layer) -> tuple[Edit, ...]:
        """Return the edits with as much more shortening as the summary layer makes necessary."""
        run, situation = self.run, self.run.situation
        before = await run.kit.gauge.pieces_tokens(run.kit.port.summary, model_key=run.reading.model_key)
        over = situation.request_tokens - freed_tokens(situation, edits) + layer.tokens - before - self._goal
        return shorten_more(situation, edits, free_tokens=over) if over > 0 else edits

    def _layer_room(self, edits: tuple[Edit, ...]) -> int:
        """Return the tokens that the summary layer may have beside what edits leave: its budget, or less to meet the goal."""
        run, situation = self.run, self.run.situation
        budget = run.layer_budget
        stays = situation.fixed_tokens + sum(map(sum, situation.tokens)) - freed_tokens(situation, edits)
        wanted = max(self._goal - stays, _LEAST_LAYER_SHARE * budget)
        return max(0, int(min(wanted, run.limit_tokens - stays, budget)))
