"""What an agent's context weighs: requests, layers and single blocks, in the tokens of the model at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ctxkit.strategies import Situation
from ctxkit.tokens import Weight, media_tokens, message_chars, serve_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import DataBlock, Msg

    from ctxkit.config import Settings
    from ctxkit.port import AgentPort, Block, ModelPort, Piece, Request
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

    async def read(self, port: AgentPort, *, unsure_factor: float = 1.0) -> Reading:
        """Measure the request that the host would send now.

        Args:
            port: The agent.
            unsure_factor: What the estimate is multiplied by until the provider has reported a usage.
        """
        model = port.model
        request = await port.request()
        weight = await self.meter.weigh_request(request.messages, request.tools, model_key=model.key)
        tokens = self.meter.estimate(weight, model_key=model.key)
        return Reading(
            request=request,
            weight=weight,
            tokens=tokens if self.meter.is_anchored(model.key) else round(unsure_factor * tokens),
            context_size=self.window(model),
            model_key=model.key,
        )

    def per_estimate(self, reading: Reading, chars_per_token: float | None) -> float:
        """Return the measured tokens of a request for each one of a quick estimate by its messages' characters.

        Args:
            reading: The request.
            chars_per_token: Characters that the estimate takes for a token; `None` where there is no such estimate.
        """
        chars = 0 if chars_per_token is None else message_chars(reading.request.messages)
        return reading.tokens * chars_per_token / chars if chars and chars_per_token is not None else 1.0

    async def weigh_messages(self, messages: Sequence[Msg], *, model_key: str) -> Weight:
        """Return what messages weigh; what has been weighed before costs a look-up."""
        weights = []
        for message in messages:
            weights.append(await self.meter.weigh_frame(message))
            weights.extend([await self.meter.weigh_block(block, model_key=model_key) for block in message.content])
            await serve_loop()
        return Weight.sum(weights)

    async def weigh_layer(self, layer: Sequence[Piece] | str, *, model_key: str) -> Weight:
        """Return what a summary layer weighs."""
        if isinstance(layer, str):
            return await self.meter.scale.weigh_text(layer)
        return await self.meter.scale.weigh_blocks(layer, model_key=model_key)

    async def pieces_tokens(self, pieces: Sequence[Piece] | str, *, model_key: str) -> float:
        """Return the calibrated tokens of a result's pieces or of a summary layer."""
        return self.meter.calibrated(await self.weigh_layer(pieces, model_key=model_key), model_key=model_key)

    async def block_tokens(self, block: Block, *, model_key: str) -> float:
        """Return the calibrated tokens of one block."""
        weight = await self.meter.scale.weigh_block(block, model_key=model_key)
        return self.meter.calibrated(weight, model_key=model_key)

    async def prior_ratio(self, block: Block, *, model_key: str) -> float:
        """Return the tokens that the prior counts in a block, for each token of the model's own tokenizer."""
        weight = await self.meter.weigh_block(block, model_key=model_key)
        calibrated = self.meter.calibrated(weight, model_key=model_key)
        return weight.total / calibrated if calibrated > 0 else 1.0

    async def table(self, view: View, *, model_key: str) -> list[list[float]]:
        """Return the calibrated tokens of each block of a view; a message's framing counts with its first block."""
        rows = []
        for message, content in zip(view.messages, view.contents, strict=True):
            weights = [await self.meter.weigh_block(block, model_key=model_key) for block in content]
            row = [self.meter.calibrated(weight, model_key=model_key) for weight in weights]
            if row:
                row[0] += self.meter.calibrated(await self.meter.weigh_frame(message), model_key=model_key)
            rows.append(row)
            await serve_loop()
        return rows

    async def changed(
        self,
        reading: Reading,
        before: Sequence[Msg],
        after: Sequence[Msg],
        *,
        layers: tuple[Sequence[Piece] | str, Sequence[Piece] | str],
    ) -> int:
        """Return the estimated tokens of a request whose messages and summary layer are replaced.

        Args:
            reading: The request as it is.
            before: Messages of its context.
            after: What stands in their place.
            layers: The summary layer before and after.
        """
        key = reading.model_key
        weight = reading.weight - await self.weigh_messages(before, model_key=key)
        weight += await self.weigh_messages(after, model_key=key)
        if layers[0] is not layers[1]:
            weight -= await self.weigh_layer(layers[0], model_key=key)
            weight += await self.weigh_layer(layers[1], model_key=key)
        return self.meter.estimate(weight, model_key=key)

    async def situation(
        self, reading: Reading, view: View, summary: Sequence[Piece] | str, settings: Settings
    ) -> Situation:
        """Return what strategies need to know of a context."""
        table = await self.table(view, model_key=reading.model_key)
        summary_tokens = await self.pieces_tokens(summary, model_key=reading.model_key)
        fixed = reading.tokens - sum(map(sum, table)) - summary_tokens
        return Situation(
            view=view,
            tokens=table,
            request_tokens=reading.tokens,
            fixed_tokens=max(0, round(fixed)),
            context_size=reading.context_size,
            settings=settings,
            fixed_parts=await self.fixed_parts(reading),
        )

    async def fixed_parts(self, reading: Reading) -> list[tuple[str, int]]:
        """Return what of a request no edit can free, with its tokens: the system prompt, and each tool's schema."""
        request, key = reading.request, reading.model_key
        prompts = list(takewhile(lambda message: message.role == "system", request.messages))
        weight = await self.weigh_messages(prompts, model_key=key)
        parts = [("system prompt", round(self.meter.calibrated(weight, model_key=key)))]
        for tool in request.tools:
            schema = await self.meter.scale.weigh_text(json.dumps(tool, ensure_ascii=False, default=str))
            parts.append((f"schema of tool {_tool_name(tool)!r}", round(self.meter.calibrated(schema, model_key=key))))
        return parts

    def media_tokens(self, block: DataBlock, *, model_key: str) -> int:
        """Return the tokens of one image or file."""
        source = block.source
        data = source.data if source.type == "base64" else None
        return media_tokens(source.media_type, data, model_key=model_key)


def _tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name in a tool's schema, whichever form it has."""
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    return str(named.get("name", "?"))
