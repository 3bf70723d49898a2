"""What an agent's context weighs: requests, layers and single blocks, in the tokens of the model at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.strategies import Situation
from ctxkit.tokens import Weight, serve_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import DataBlock, Msg

    from ctxkit.config import Settings
    from ctxkit.port import AgentPort, ModelPort, Piece, Request
    from ctxkit.tokens import Meter
    from ctxkit.view import View


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one request weighs."""

    request: Request
    weight: Weight
    tokens: int
    """Estimated tokens of the whole request."""
    context_size: int
    """Tokens of the model's window, as far as it is known to be true."""
    model_key: str


class Gauge:
    """Measures with one meter; the meter is anchored on what the provider reported."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def window(self, model: ModelPort) -> int:
        """Return the tokens of a model's window: what it claims, or less where its provider taught better."""
        return self.meter.limit(model.key, model.context_size)

    async def read(self, port: AgentPort) -> Reading:
        """Measure the request that the host would send now."""
        model = port.model
        request = await port.request()
        weight = await self.meter.weigh_request(request.messages, request.tools, model_key=model.key)
        return Reading(
            request=request,
            weight=weight,
            tokens=self.meter.estimate(weight, model_key=model.key),
            context_size=self.window(model),
            model_key=model.key,
        )

    async def weigh_messages(self, messages: Sequence[Msg], *, model_key: str) -> Weight:
        """Return what messages weigh; what has been weighed before costs a look-up."""
        weights = []
        for message in messages:
            weights.append(await self.meter.blocks.weigh_message(message, model_key=model_key))
            await serve_loop()
        return Weight.sum(weights)

    def tokens(self, weight: Weight) -> float:
        """Return the calibrated tokens of a part of a request."""
        return self.meter.calibration.scale(weight)

    async def table(self, view: View, *, model_key: str) -> list[list[float]]:
        """Return the calibrated tokens of each block of a view; a message's framing counts with its first block."""
        rows = []
        scale, calibrated = self.meter.blocks, self.meter.calibration.scale
        for message, content in zip(view.messages, view.contents, strict=True):
            row = [calibrated(await scale.weigh_block(block, model_key=model_key)) for block in content]
            if row:
                row[0] += calibrated(scale.weigh_framing(message))
            rows.append(row)
            await serve_loop()
        return rows

    async def situation(self, reading: Reading, view: View, summary: Sequence[Piece] | str, settings: Settings) -> Situation:
        """Return what strategies need to know of a context."""
        table = await self.table(view, model_key=reading.model_key)
        context_tokens = sum(map(sum, table))
        summary_tokens = await self.layer_tokens(summary, model_key=reading.model_key)
        return Situation(
            view=view,
            tokens=table,
            request_tokens=reading.tokens,
            fixed_tokens=max(0, round(reading.tokens - context_tokens - summary_tokens)),
            context_size=reading.context_size,
            settings=settings,
        )

    async def layer_tokens(self, layer: Sequence[Piece] | str, *, model_key: str) -> float:
        """Return the calibrated tokens of a summary layer."""
        if isinstance(layer, str):
            return self.tokens(await self.meter.blocks.weigh_text(layer)) if layer else 0.0
        return sum([self.tokens(await self.meter.blocks.weigh_block(piece, model_key=model_key)) for piece in layer])

    def media_tokens(self, block: DataBlock, *, model_key: str) -> int:
        """Return the tokens of one image or file."""
        return self.meter.blocks.media_tokens(block, model_key=model_key)
