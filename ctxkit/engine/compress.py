"""One compression: measure, plan, store, draft a summary, swap, in this order and each told to whoever listens."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import clear_context, plan_clear
from ctxkit.engine.climb import Aim, Chosen, Climb
from ctxkit.engine.prepare import let_go
from ctxkit.errors import ContextUnfitError, SummaryError
from ctxkit.plan import EditKind, Reason
from ctxkit.strategies.history_limit import is_hidden
from ctxkit.strategies.ladder import LEAVING, freed_tokens, leaving, plan_ladder, shorten_more, stacked
from ctxkit.triggers import HYSTERESIS_RATIO
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentscope.message import Msg

    from ctxkit.engine.draft import Drafts
    from ctxkit.engine.hooks import Hooks
    from ctxkit.engine.journal import Unfinished
    from ctxkit.engine.layer import Layer
    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run
    from ctxkit.plan import Draft, Edit, Receipt
    from ctxkit.port import Block, Codec
    from ctxkit.view import View

logger = logging.getLogger("ctxkit")

_LEAST_LAYER_SHARE = 0.4
"""Share of its budget that the summary layer has at least, where the reserve would leave less."""
_LEAST_LAYER_TOKENS = 160
"""Room for the line that says what left and where it is, and a little more."""


@dataclass(frozen=True, kw_only=True)
class Compression:
    """Decides what one run does to a context, from the cheapest way to the last resort.

    `choose` only looks, `plan` stores and makes all that is needed, and `carry_out` changes the context.

    Args:
        run: The run.
        drafts: Makes the summaries.
        focus: What the summary must look after, in the user's words; with one a summary is made.
        force: Compress even below the trigger.
        may_ask: Ask a model for the summary; without that it is made by code, and nothing is waited for.
        hooks: The user's own code, told when it begins.
    """

    run: Run
    drafts: Drafts
    focus: str | None = None
    force: bool = False
    may_ask: bool = True
    hooks: Hooks | None = None

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
        try:
            planned = await self.plan()
        finally:
            run.kit.cleared_until = None  # done, or refused again and cleared then
        if planned.context is None:
            return run.unneeded(planned)
        receipt = await run.apply(planned)
        await run.emit(telemetry.DONE if receipt.outcome == "applied" else telemetry.FAILED, receipt.to_json())
        return receipt

    async def plan(self) -> Planned:
        """Measure, choose, store the originals and make the summary; the context stays as it is.

        Returns:
            What `Run.apply` carries out; without a context where nothing is to be done.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        run = self.run
        chosen = await self.choose()
        until = run.kit.cleared_until if run.settings.overflow.on_unfit == "clear" else None
        if until is not None:
            edits = plan_clear(run.situation, until=until)
            chosen = Chosen(edits=edits, why="the provider took no more than the newest request (on_unfit)")
        run.problems.extend(chosen.problems)
        if self.is_due:
            await run.journal.look()
        unfinished = None if until is not None else self._unfinished(chosen.summary)
        if unfinished is not None:
            run.plan_id = unfinished.plan_id
            beside = chosen.beside or await self._left_over(unfinished, chosen.summary)
            edits = stacked(unfinished.edits, beside)
            chosen = replace(chosen, edits=edits, why=f"{chosen.why}; its summary was there already")
        try:
            if not chosen.edits:
                return run.nothing(chosen.why)
            await run.tell(
                telemetry.STARTED,
                tokens_before=run.tokens_before,
                limit_tokens=run.trigger_tokens,
                context_size=run.reading.context_size,
            )
            if self.hooks is not None:
                await self.hooks.before(chosen.edits)
            if until is not None:
                return await clear_context(run, until=until)
            return await self._planned(chosen, unfinished=unfinished)
        except ContextUnfitError as unfit:
            return await self._last_resort(unfit)

    async def choose(self) -> Chosen:
        """Measure, and return the edits that would be made; nothing is stored and no model is asked."""
        run = self.run
        await run.measure()
        asked = "asked for" if self.force else ""
        if run.decision is not None:
            due = run.decision.why
        else:
            compared = "reach" if run.is_due else "are below"
            due = f"{run.tokens_before:,} tokens {compared} the trigger of {run.trigger_tokens:,}"
        if not self.is_due:
            edits = plan_ladder(run.situation, keep_tokens=None)
            return Chosen(edits=edits, why="; ".join((due, *_why_anyway(edits))))
        chosen = await Climb(situation=run.situation, aim=self._aim(), codec=run.kit.codec).choose()
        return replace(chosen, why="; ".join(filter(None, (asked or due, chosen.why))))

    @property
    def is_due(self) -> bool:
        """Whether more is to be done than to shorten what is oversized; known when the run has measured."""
        return self.force or self.run.is_due

    @property
    def _fit(self) -> float:
        """Tokens that a request may have behind a compression; what stays is touched for no less."""
        return self.run.trigger_tokens * HYSTERESIS_RATIO

    def _aim(self) -> Aim:
        run, decision, request = self.run, self.run.decision, self.run.situation.request_tokens
        reserve = run.settings.reserve_ratio * run.situation.context_size
        messages, turns = (None, None) if decision is None else (decision.keep_messages, decision.keep_turns)
        return Aim(
            goal_tokens=min(run.goal_tokens, request * HYSTERESIS_RATIO),
            fit_tokens=min(self._fit, request * HYSTERESIS_RATIO),
            limit_tokens=run.limit_tokens,
            due_tokens=run.trigger_tokens,
            layer_tokens=_LEAST_LAYER_SHARE * run.layer_budget,
            worth_tokens=run.worth_tokens,
            more_layer_tokens=self._more_layer,
            summary_tokens=0.0 if decision is None else decision.summary_tokens,
            keep_tokens=reserve if decision is None or not decision.keep_tokens else decision.keep_tokens,
            keep_messages=messages,
            keep_turns=turns,
            force=self.force,
            # Nothing but what leaves makes fewer messages, and only a summary can look after something.
            wants_summary=self.focus is not None or messages is not None or turns is not None,
            is_priced=decision is not None and decision.is_priced,
        )

    def _unfinished(self, summary: Sequence[Edit]) -> Unfinished | None:
        """Return a plan that was stored and not applied, if it takes away of what the summary would, and enough of it.

        Where more has come since, its cut lies a little before theirs; but its summary has been paid for. One that was
        prepared need only bring the request within its limit: nobody is to wait for another one, which would free more.
        """
        run, situation, gone = self.run, self.run.situation, leaving(summary)
        goal = min(run.trigger_tokens, situation.request_tokens)
        within = min(run.limit_tokens, situation.request_tokens) if run.reason is Reason.TRIGGER else goal
        if not gone:
            return None
        for plan in run.journal.unfinished(situation, focus=self.focus, settings=run.settings):
            left = situation.request_tokens - freed_tokens(situation, plan.edits)
            most = within if plan.is_prepared else goal
            if leaving(plan.edits) <= gone and left + self._more_layer <= most:
                return plan
        return None

    @property
    def _more_layer(self) -> float:
        """Tokens by which a new summary layer is larger than the one that is there, at least."""
        return max(0.0, _LEAST_LAYER_SHARE * self.run.layer_budget - self.run.layer_tokens)

    async def _left_over(self, unfinished: Unfinished, summary: Sequence[Edit]) -> tuple[Edit, ...]:
        """Return what is cleared of the messages that a summary made now would take away and a prepared one does not.

        They would be read at each step until the next summary takes them. The new one stands before them, so that they are
        written to the prompt cache anew in any case.
        """
        if not unfinished.is_prepared:
            return ()
        climb = Climb(situation=self.run.situation, aim=self._aim(), codec=self.run.kit.codec)
        return await climb.clear(leaving(summary) - leaving(unfinished.edits))

    async def _last_resort(self, unfit: ContextUnfitError) -> Planned:
        """Keep the last step alone, without asking a model; where not even that fits, refuse or clear."""
        run, situation = self.run, self.run.situation
        edits = plan_ladder(situation, keep_tokens=0)
        over = situation.request_tokens - freed_tokens(situation, edits) + _LEAST_LAYER_TOKENS
        free = over - run.limit_tokens
        edits = shorten_more(situation, edits, free_tokens=free) if free > 0 else edits
        if run.settings.fallback_to_truncation and leaving(edits):
            try:
                return await self._planned(Chosen(edits=edits, why="nothing less fits"), is_last_resort=True)
            except ContextUnfitError as exc:
                unfit = exc
        if run.settings.overflow.on_unfit != "clear":
            raise unfit
        logger.warning("ctxkit clears the context of agent %r: %s", run.kit.port.name, unfit)
        return await clear_context(run)

    async def _planned(
        self, chosen: Chosen, *, unfinished: Unfinished | None = None, is_last_resort: bool = False
    ) -> Planned:
        """Store what edits take away, make the summary and what stands in place of what they shorten."""
        run, kit, view, edits = self.run, self.run.kit, self.run.situation.view, chosen.edits
        told = [edit for edit in edits if _is_told(view, edit)]
        leaves = taken_away(view, edits, kit.codec)
        await run.tell(
            telemetry.PROGRESS, stage="plan", messages=len(taken_away(view, told, kit.codec)), edits=len(edits)
        )
        reference = await self._stored(leaves, unfinished) if leaves else None
        draft: Draft | None = None
        layer: Layer | None = None
        if told:
            if unfinished is not None and unfinished.keys == run.keys:
                draft = unfinished.draft
                run.is_prepared = unfinished.is_prepared
                if not run.is_prepared:
                    await run.tell(telemetry.PLAN_RESUMED)
            else:
                run.is_prepared = False
                if unfinished is not None and unfinished.is_prepared:
                    let_go(kit, unfinished.plan_id, unfinished.draft, "what it stands for has been changed")
                draft = await self._draft(told, is_last_resort=is_last_resort)
                await run.plan(edits, draft, focus=self.focus)
            await run.tell(telemetry.PROGRESS, stage="summary", summary="none" if draft is None else draft.origin)
            layer = await self._layer(edits, told, draft, reference)
            edits = self._fitted(edits, layer)
        shortened = await kit.shortener(run.settings, run.reading.model_key).carry_out(view, edits)
        run.problems.extend(shortened.problems)
        for problem in shortened.problems:
            await run.tell(telemetry.STORE_FAILED, what="content", problem=problem)
        learnt = None
        if layer is None and (cleared := _cleared(view, shortened.edits, run)):
            learnt = await run.layers.with_facts(cleared, settings=run.settings)
        return await run.check(shortened, layer, draft=draft, learnt=learnt, reference=reference, why=chosen.why)

    async def _stored(self, leaves: Sequence[Msg], unfinished: Unfinished | None) -> str | None:
        """Store what leaves, before the summary is asked for: a store that is down costs no model call."""
        run = self.run
        if unfinished is not None and unfinished.is_same:
            run.keys, reference = unfinished.keys, unfinished.reference
        else:
            reference = await run.store(leaves)
        await run.tell(telemetry.PROGRESS, stage="store", reference=reference)
        return reference

    async def _layer(
        self, edits: Sequence[Edit], told: Sequence[Edit], draft: Draft | None, reference: str | None
    ) -> Layer:
        run, kit, view = self.run, self.run.kit, self.run.situation.view
        return await run.layers.next(
            taken_away(view, told, kit.codec),
            draft,
            reference=reference,
            tokens=sum(edit.tokens for edit in told),
            budget_tokens=self._layer_room(edits),
            keeps=apply_edits(view, edits, _lines_of(edits, kit.codec), kit.codec),
            settings=run.settings,
            model_key=run.reading.model_key,
            cleared=_cleared(view, edits, run),
            tools=run.reading.request.tools,
        )

    async def _draft(self, told: Sequence[Edit], *, is_last_resort: bool) -> Draft | None:
        """Return the summary of what leaves; None where it is dropped without one."""
        run = self.run
        summed = [edit for edit in told if edit.kind is EditKind.COMPRESS]
        if not summed:
            return None
        leaves, tokens = taken_away(run.situation.view, summed, run.kit.codec), sum(edit.tokens for edit in summed)
        if is_last_resort or not self.may_ask:
            most = None if is_last_resort else run.settings.summary.max_tokens
            return await self.drafts.collect(run.reading, leaves, settings=run.settings, max_tokens=most)
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
        if draft.checked is not None:
            await run.tell(telemetry.VERIFIED, **draft.checked.to_json())
        return draft

    def _fitted(self, edits: tuple[Edit, ...], layer: Layer) -> tuple[Edit, ...]:
        """Return the edits with as much more shortening as the summary layer makes necessary.

        Where a summary was prepared for less than there is by now, the next one takes the rest: nothing is cut for that.
        """
        situation = self.run.situation
        left = situation.request_tokens - freed_tokens(situation, edits) + layer.tokens - self.run.layer_tokens
        over = left - (self.run.limit_tokens if self.run.is_prepared else self._fit)
        return shorten_more(situation, edits, free_tokens=over) if over > 0 else edits

    def _layer_room(self, edits: Sequence[Edit]) -> int:
        """Return the tokens that the summary layer may have beside what edits leave: its budget, or less to meet the goal."""
        run, situation = self.run, self.run.situation
        budget = run.layer_budget
        stays = situation.fixed_tokens + sum(map(sum, situation.tokens)) - freed_tokens(situation, edits)
        # Where a summary was prepared for less than there is by now, the next one takes the rest: the layer is not cut for it.
        wanted = budget if run.is_prepared else max(self._fit - stays, _LEAST_LAYER_SHARE * budget)
        return max(0, int(min(wanted, run.limit_tokens - stays, budget)))


def _why_anyway(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield why edits are made where no compression is due."""
    hidden = sum(map(is_hidden, edits))
    if hidden:
        yield "turns before the limit of the history leave"
    if len(edits) > hidden:
        yield "something oversized is shortened"


def _is_told(view: View, edit: Edit) -> bool:
    """Whether an edit takes away what the summary layer must tell of; not what a limit hides, and thinking is not missed."""
    blocks = view.contents[edit.message][edit.start : edit.stop]
    is_thought = bool(blocks) and all(block.type == "thinking" for block in blocks)
    is_told_drop = edit.kind is EditKind.DROP and not is_thought and not is_hidden(edit)
    return edit.kind is EditKind.COMPRESS or is_told_drop


def _lines_of(edits: Iterable[Edit], codec: Codec) -> dict[Place, Block]:
    """Return the lines that stand in place of what is cleared: what they name is all that can still be read there."""
    cleared = (edit for edit in edits if edit.kind is EditKind.CLEAR)
    return {Place(edit.message, edit.start): codec.text(edit.text or "") for edit in cleared}


def _cleared(view: View, edits: Iterable[Edit], run: Run) -> list[Msg]:
    """Return what edits take out of what stays, as messages: it is in no summary, but its facts are to be kept."""
    codec = run.kit.codec
    return [
        codec.with_content(view.messages[edit.message], view.contents[edit.message][edit.start : edit.stop])
        for edit in edits
        if edit.kind is EditKind.CLEAR or (edit.kind in LEAVING and not _is_told(view, edit) and not is_hidden(edit))
    ]
