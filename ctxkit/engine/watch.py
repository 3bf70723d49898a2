"""When an automatic compression is due: looked at before each reasoning step, at the cost of what is new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.engine.arrivals import Arrivals
from ctxkit.errors import ContextUnfitError
from ctxkit.ledger import scan_block
from ctxkit.strategies.images import images_of

if TYPE_CHECKING:
    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.kit import Kit
    from ctxkit.plan import Receipt


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a check before a reasoning step saw."""

    tokens: int
    trigger_tokens: int
    is_due: bool
    """Whether anything is to be done: a compression, or something oversized to be shortened."""


class Watch:
    """Watches one agent's context grow, and remembers what came of the last compression.

    Args:
        kit: The agent's kit.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._arrivals = Arrivals()
        self._oversized = False
        self._images = 0
        self._tokens = 0
        self._rest_until = 0
        self._rest_step = 1

    async def look(self, settings: Settings) -> Look:
        """Measure the next request and what is new in the context; costs what is new."""
        reading = await self._kit.gauge.read(self._kit.port)
        await self._look_at_new(reading, settings)
        trigger = settings.trigger_tokens(reading.context_size)
        is_due = reading.tokens >= trigger or self._oversized or self._images > settings.max_image_num
        self._tokens = reading.tokens
        if is_due and reading.tokens < min(self._rest_until, settings.limit_tokens(reading.context_size)):
            is_due = False
        self._rest_step = max(1, int(settings.triggers.min_gain_ratio * reading.context_size))
        return Look(tokens=reading.tokens, trigger_tokens=trigger, is_due=is_due)

    def failed(self, error: Exception) -> None:
        """Remember that a compression failed."""
        if not isinstance(error, ContextUnfitError):
            self._rest()

    def ended(self, receipt: Receipt, settings: Settings) -> None:
        """Remember what came of a compression."""
        self._oversized = False
        if receipt.outcome != "applied":
            self._rest()
        elif receipt.tokens_after < receipt.limit_tokens:
            self._rest_until = 0
        else:
            # What no edit can free is above the trigger: half of what is left may fill before the next summary.
            room = settings.limit_tokens(self._kit.gauge.window(self._kit.port.model)) - receipt.tokens_after
            self._rest_until = receipt.tokens_after + max(self._rest_step, room // 2)

    def _rest(self) -> None:
        """Wait with the next automatic compression until the context has grown a little, or no longer fits.

        Without this, a store or a model that is down would be asked again before each reasoning step.
        """
        self._rest_until = self._tokens + self._rest_step

    async def _look_at_new(self, reading: Reading, settings: Settings) -> None:
        context = self._kit.port.context
        if self._arrivals.is_all_new(context):
            self._oversized = False
            self._images = 0
        window = reading.context_size
        smallest = min(settings.paste_limit(window), settings.result_limit("", window))
        for place, block in self._arrivals.new(context):
            await scan_block(
                block, role=context[place.message].role
            )  # remembers what the ledger will want, so that a compression need not read it all
            tokens = await self._kit.gauge.block_tokens(block, model_key=reading.model_key)
            self._oversized = self._oversized or tokens > smallest
            self._images += sum(1 for _ in images_of(block))
        self._arrivals.looked(context)
