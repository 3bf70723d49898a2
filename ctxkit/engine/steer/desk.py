"""The desk of one agent: see what a compression would do, take one back, and say what must stay and what must go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ctxkit.engine.compress import Compression
from ctxkit.engine.hooks import Hooks
from ctxkit.engine.steer.explain import explain
from ctxkit.engine.steer.forget import plan_forget
from ctxkit.engine.steer.preview import estimate_of, preview_of
from ctxkit.engine.steer.ready import Ready, ReadyCompression
from ctxkit.engine.steer.undo import Undo
from ctxkit.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.draft import Drafts
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.engine.pins import Pin
    from ctxkit.engine.run import Run
    from ctxkit.engine.steer.explain import Explanation
    from ctxkit.engine.steer.preview import Preview
    from ctxkit.engine.steer.undo import Undone
    from ctxkit.plan import Receipt
    from ctxkit.port import EmitEvent

REST_TURNS: Final = 3
"""After a compression was taken back, none is made by itself for so many turns, while requests are safe to fit."""
_UNKNOWN_BUDGET: Final = 1000
"""Tokens that pins may take together where no model says how large the window is."""


class Desk:
    """Steers one agent's engine.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
        drafts: Makes the summaries.
        begin: Makes a run from settings, a reason and what takes its events.
        alone: Keeps other changes of the agent's context out; true keeps out other summaries too.
        rest: Is told for how many turns no compression is to be made by itself.
    """

    def __init__(
        self,
        kit: Kit,
        layers: Layers,
        drafts: Drafts,
        *,
        begin: Callable[[Settings, Reason, EmitEvent], Run],
        alone: Callable[[bool], AbstractAsyncContextManager[None]],
        rest: Callable[[int], None],
    ) -> None:
        self._kit = kit
        self._layers = layers
        self._drafts = drafts
        self._begin = begin
        self._alone = alone
        self._rest = rest
        self._ready: Ready | None = None
        """What was previewed last; the next compression, whatever it comes to, takes it away."""

    async def preview(self, settings: Settings, *, focus: str | None = None, draft: bool = True) -> Preview:
        """Return what `compact` would do; the context stays as it is.

        Args:
            settings: How to compress.
            focus: What the summary must look after.
            draft: Make the summary, once, and keep it for the compression that follows; False estimates and asks no model.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        async with self._alone(draft):
            run = self._begin(settings, Reason.MANUAL, _quiet)
            compression = Compression(run=run, drafts=self._drafts, focus=focus, force=True)
            if not draft:
                return await estimate_of(run, await compression.choose())
            self._ready = None
            planned = await compression.plan()
            self._ready = Ready.of(run, planned, focus=focus)
            return await preview_of(run, planned)

    def compression(self, run: Run, *, focus: str | None, force: bool, may_ask: bool, hooks: Hooks) -> Compression:
        """Return a compression: the one that was previewed, where it is the same that is wanted.

        Args:
            run: The run that is to be carried out.
            focus: What the summary must look after.
            force: Compress even below the trigger.
            may_ask: Ask a model for the summary.
            hooks: The user's own code.
        """
        ready, self._ready = self._ready, None
        wanted = Compression(run=run, drafts=self._drafts, focus=focus, force=force, may_ask=may_ask, hooks=hooks)
        return ReadyCompression(**vars(wanted), ready=ready) if ready is not None and force else wanted

    async def pin(self, item: Msg | str, settings: Settings | None) -> Pin:
        """Let a message, or a text of the user's, stay word for word from now on.

        Args:
            item: A message; the text of a new one; or the id of a message in the context.
            settings: What share pins may take; `None` where no model is at hand.

        Raises:
            ConfigError: The pins would take more than their budget.
        """
        kit = self._kit
        async with self._alone(False):
            there = next(
                (one for one in kit.port.context if one.id == (item if isinstance(item, str) else item.id)), None
            )
            is_text = there is None and isinstance(item, str)
            message = there or (kit.codec.user_message(item) if isinstance(item, str) else item)
            budget = _UNKNOWN_BUDGET
            tokens = await self._tokens(message)
            if settings is not None:
                run = self._begin(settings, Reason.MANUAL, _quiet)
                await run.measure()
                budget, tokens = round(run.pins_room), round(await _measured(run, message))
            pin = await kit.pins.add(message, tokens=tokens, budget_tokens=budget, is_text=is_text)
            kit.pins.settle()
            return next(one for one in kit.pins.all() if one.id == pin.id)

    def unpin(self, pin_id: str) -> bool:
        """Let a message leave again; return whether it was pinned."""
        return self._kit.pins.remove(pin_id)

    def pins(self) -> tuple[Pin, ...]:
        """Return the pins, the oldest first."""
        return self._kit.pins.all()

    async def explain(self, item_id: str) -> Explanation:
        """Return what became of a message, a block or a call.

        Raises:
            StoreReadError: The store cannot be read.
        """
        return await explain(self._kit, item_id)

    async def undo(self, plan_id: str | None, settings: Settings | None) -> Undone:
        """Take a compression back, the newest first; the next stream of a reply tells it.

        Args:
            plan_id: The newest one that was not taken back; `None` for whichever that is.
            settings: How large a request may be; `None` where no model is at hand.
        """
        async with self._alone(False):
            return await Undo(kit=self._kit, layers=self._layers, swapped=self._undone).carry_out(plan_id, settings)

    async def clear(self, settings: Settings) -> Receipt:
        """Let the whole conversation leave the context, stored, but for pins and calls in flight; no model is asked.

        To be called between two replies, for the newest request leaves too. `undo` brings all of it back.

        Args:
            settings: How to store.

        Raises:
            ContextUnfitError: System prompt, tools and pins alone do not fit.
            StoreWriteError: What would leave could not be stored, or there is no place for it; the context is as it was.
        """
        async with self._alone(False):
            run = self._begin(settings, Reason.MANUAL, _quiet)
            hooks = Hooks(run)
            await run.measure()
            try:
                planned = await plan_forget(run, hooks)
                if planned.context is None:
                    return run.unneeded(planned)
                receipt = await run.apply(planned)
            except Exception as exc:
                await hooks.after(run.failed(exc))
                raise
            self._ready = None
            await hooks.after(receipt)
            if run.is_cancelled:
                raise asyncio.CancelledError
            return receipt

    def _undone(self) -> None:
        """Do what belongs to taking a compression back, in the same step."""
        self._ready = None
        self._rest(REST_TURNS)
        self._kit.pins.settle()

    async def _tokens(self, message: Msg) -> int:
        """Return the tokens of a message as the prior counts them."""
        return round((await self._kit.gauge.weigh_messages([message], model_key="")).total)


async def _measured(run: Run, message: Msg) -> float:
    """Return the calibrated tokens of a message, with those that hold its calls or results."""
    view, gauge = run.situation.view, run.kit.gauge
    index = next((n for n, one in enumerate(view.messages) if one.id == message.id), None)
    if index is not None:
        return sum(sum(run.situation.tokens[one]) for one in view.with_partners({index}))
    weight = await gauge.weigh_messages([message], model_key=run.reading.model_key)
    return gauge.meter.calibrated(weight, model_key=run.reading.model_key)


async def _quiet(name: str, value: Mapping[str, Any]) -> None:
    """Take the events of a run that changes nothing."""
