"""Bring into the summary layer what memory has written of messages that left before: where a stub stood, a summary stands."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ctxkit import telemetry
from ctxkit.engine.layer import DROPPED
from ctxkit.engine.planned import Planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctxkit.engine.run import Run
    from ctxkit.plan import Receipt

logger = logging.getLogger("ctxkit")

EARLIER: Final = "An earlier summary, of what was written to memory"
"""How what is brought in begins; the layer keeps its newest ones."""


@dataclass(frozen=True, kw_only=True)
class BringIn:
    """Changes the summary layer alone: it is written down and swapped in as a compression is, and can be taken back.

    Args:
        run: The run.
        texts: What memory has, by the id of the plan that took the messages away.
    """

    run: Run
    texts: Mapping[str, str]

    async def carry_out(self) -> Receipt:
        """Put the texts where stubs alone stood; where there is no room for them, the stubs stay."""
        run = self.run
        await run.measure()
        planned = await self._planned()
        receipt = await run.apply(planned)
        await run.emit(telemetry.DONE if receipt.outcome == "applied" else telemetry.FAILED, receipt.to_json())
        return receipt

    async def _planned(self) -> Planned:
        run, layers, view = self.run, self.run.layers, self.run.situation.view
        state = layers.current()
        waiting = [plan_id for plan_id in layers.awaited() if plan_id not in self.texts]
        notes = [note for note in state.notes if note != DROPPED]
        notes += [f"{EARLIER}:\n{text}" for text in self.texts.values() if text]
        notes += [DROPPED] if waiting else []
        stays = run.situation.fixed_tokens + sum(map(sum, run.situation.tokens))
        layer = await layers.rendered(
            replace(state, notes=tuple(notes)),
            leaves=(),
            keeps=view.messages,
            budget_tokens=max(0, int(min(run.layer_budget, run.limit_tokens - stays))),
            reference=None,
            settings=run.settings,
            model_key=run.reading.model_key,
            tools=run.reading.request.tools,
        )
        await run.plan((), None)
        after = await run.kit.gauge.changed(
            run.reading, view.messages, view.messages, layers=(run.kit.port.summary, layer.pieces)
        )
        return Planned(
            context=list(view.messages),
            tokens_after=after,
            stable_tokens=run.stable_tokens((), layer),
            layer=layer,
            awaits=tuple(waiting),
            why="memory has a summary of what left",
        )
