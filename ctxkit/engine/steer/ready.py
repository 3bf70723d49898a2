"""A compression that was previewed: what was planned is carried out as it was shown, while all of it still stands."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.compress import Compression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxkit.engine.pins import Pin
    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run
    from ctxkit.offload import Store
    from ctxkit.view import View


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A plan that was shown, and what it rests on."""

    run: Run
    """Has measured and stored."""
    planned: Planned
    focus: str | None
    layer: str
    """The digest of the summary layer that was there."""
    pins: tuple[Pin, ...]
    session_id: str
    store: Store | None

    @classmethod
    def of(cls, run: Run, planned: Planned, *, focus: str | None) -> Ready:
        """Return a plan with what it rests on now."""
        kit = run.kit
        return cls(
            run=run,
            planned=planned,
            focus=focus,
            layer=run.layers.digest(),
            pins=kit.pins.all(),
            session_id=kit.port.session_id,
            store=kit.guard.store,
        )

    def holds(self, run: Run, *, focus: str | None) -> bool:
        """Whether another run, which has measured, would plan the same for the very same context.

        What the provider reported since is left aside: it moves the estimates, not the context.
        """
        kit, was, now = run.kit, self.run.reading, run.reading
        return (
            (focus, run.settings) == (self.focus, self.run.settings)
            and (kit.port.session_id, kit.guard.store) == (self.session_id, self.store)
            and (now.model_key, now.context_size, now.weight) == (was.model_key, was.context_size, was.weight)
            and (run.layers.digest(), kit.pins.all()) == (self.layer, self.pins)
            and _is_same(self.run.situation.view, run.situation.view)
        )


@dataclass(frozen=True, kw_only=True)
class ReadyCompression(Compression):
    """A compression that carries out what was shown, and plans anew where that no longer holds."""

    ready: Ready

    async def plan(self) -> Planned:
        """Return what was planned already; see `Compression.plan`."""
        run, was, planned = self.run, self.ready.run, self.ready.planned
        await run.measure()
        if not self.ready.holds(run, focus=self.focus):
            return await super().plan()
        run.reading, run.situation = was.reading, was.situation
        run.tokens_before, run.trigger_tokens = was.tokens_before, was.trigger_tokens
        run.plan_id, run.keys, run.is_prepared = was.plan_id, was.keys, was.is_prepared
        run.problems.extend(was.problems)
        if planned.context is not None:
            await run.tell(
                telemetry.STARTED,
                tokens_before=run.tokens_before,
                limit_tokens=run.trigger_tokens,
                context_size=run.reading.context_size,
            )
            await run.tell(telemetry.PLAN_RESUMED)
            if self.hooks is not None:
                await self.hooks.before(planned.edits)
        return planned


def _is_same(one: View, other: View) -> bool:
    """Whether two views see the very same messages and blocks."""
    return _are_same(one.messages, other.messages) and all(map(_are_same, one.contents, other.contents))


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
