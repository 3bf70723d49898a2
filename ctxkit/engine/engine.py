"""The engine of one agent: it measures, decides, and carries out; all that it keeps is about this agent."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxkit import telemetry
from ctxkit.engine.arrivals import Arrivals
from ctxkit.engine.compress import Compression
from ctxkit.engine.draft import Drafts
from ctxkit.engine.gauge import Gauge
from ctxkit.engine.layer import Layers
from ctxkit.engine.request import RequestFitter
from ctxkit.engine.shorten import ShortenEdits
from ctxkit.errors import ContextUnfitError
from ctxkit.ledger import scan_block
from ctxkit.offload import Recall
from ctxkit.strategies.images import images_of
from ctxkit.tokens import Meter, Ruler
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.layer import Layer
    from ctxkit.offload import OffloadGuard
    from ctxkit.plan import Reason, Receipt
    from ctxkit.port import AgentPort, Codec, EmitEvent, ModelPort, Swap
    from ctxkit.tokens import Counter, Weight

_UNSURE_RATIO = 1.5
"""Before the provider has reported a usage, a request counts as too large only from this share of its limit on: a prior
tokenizer was seen to be wrong by up to 40% on the content of another model's (research on o200k, Qwen, Claude)."""
_TARGETS = 32
"""How many requests' learnt targets are kept."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a check before a reasoning step saw."""

    tokens: int
    trigger_tokens: int
    is_due: bool
    """Whether anything is to be done: a compression, or something oversized to be shortened."""


class Engine:
    """One agent's engine.

    Args:
        port: The agent.
        codec: Builds and parses the host's blocks.
        counter: The prior tokenizer.
        guard: Stores what leaves the context.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        port: AgentPort,
        codec: Codec,
        *,
        counter: Counter,
        guard: OffloadGuard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.port = port
        self.codec = codec
        self.clock = clock
        self.ruler = Ruler(counter)
        meter = Meter(counter)
        meter.load(port.slot.get("meter"))
        self.gauge = Gauge(meter)
        self.store_through(guard)
        self.layers = Layers(self)
        self.drafts = Drafts(self)
        self.receipts: deque[Receipt] = deque(maxlen=64)
        self.tool_choice: object | None = None
        """The tool choice of the agent's last request, which a warm summary call repeats."""
        self.learnt_targets: OrderedDict[tuple[str, int, str, int], int] = OrderedDict()
        self._arrivals = Arrivals()
        self._oversized = False
        self._images = 0
        self._tokens = 0
        self._rest_until = 0
        self._rest_step = 1
        self._pending: list[tuple[str, dict[str, Any]]] = []
        self._busy: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def store_through(self, guard: OffloadGuard) -> None:
        """Store what leaves the context through this guard from now on."""
        self.guard = guard
        self.recall = None if guard.store is None else Recall(guard.store)
        """Reads back what was stored; None where nothing can be."""

    @property
    def last_receipt(self) -> Receipt | None:
        """What came of the last compression, if there was one."""
        return self.receipts[-1] if self.receipts else None

    def view(self) -> View:
        """Return a view of the context as it is now."""
        return View(self.port.context, agent_name=self.port.name, reply_id=self.port.reply_id)

    async def look(self, settings: Settings) -> Look:
        """Measure the next request and what is new in the context; costs what is new."""
        reading = await self.gauge.read(self.port)
        await self._look_at_new(reading, settings)
        trigger = settings.trigger_tokens(reading.context_size)
        is_due = reading.tokens >= trigger or self._oversized or self._images > settings.max_image_num
        self._tokens = reading.tokens
        if is_due and reading.tokens < min(self._rest_until, settings.limit_tokens(reading.context_size)):
            is_due = False
        self._rest_step = max(1, int(settings.triggers.min_gain_ratio * reading.context_size))
        return Look(tokens=reading.tokens, trigger_tokens=trigger, is_due=is_due)

    def _rest(self) -> None:
        """Wait with the next automatic compression until the context has grown a little, or no longer fits.

        Without this, a store or a model that is down would be asked again before each reasoning step.
        """
        self._rest_until = self._tokens + self._rest_step

    async def _look_at_new(self, reading: Reading, settings: Settings) -> None:
        context = self.port.context
        if self._arrivals.is_all_new(context):
            self._oversized = False
            self._images = 0
        window = reading.context_size
        smallest = min(settings.paste_limit(window), settings.result_limit("", window))
        for place, block in self._arrivals.new(context):
            await scan_block(
                block, role=context[place.message].role
            )  # remembers what the ledger will want, so that a compression need not read it all
            tokens = await self.gauge.block_tokens(block, model_key=reading.model_key)
            self._oversized = self._oversized or tokens > smallest
            self._images += sum(1 for _ in images_of(block))
        self._arrivals.looked(context)

    async def compress(
        self, settings: Settings, *, reason: Reason, emit: EmitEvent, focus: str | None = None, force: bool = False
    ) -> Receipt:
        """Compress where it is due; one compression of an agent at a time.

        What fails leaves a receipt and is told as well as raised; what is cancelled leaves none.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored, and so it stays.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        async with self._lock():
            run = Compression(engine=self, settings=settings, reason=reason, emit=emit, focus=focus, force=force)
            try:
                receipt = await run.run()
            except Exception as exc:
                failed = run.failed(exc)
                self.receipts.append(failed)
                if not isinstance(exc, ContextUnfitError):
                    self._rest()
                await emit(telemetry.FAILED, failed.to_json())
                raise
            self.receipts.append(receipt)
            self._oversized = False
            if receipt.outcome != "applied":
                self._rest()
            elif receipt.tokens_after < receipt.limit_tokens:
                self._rest_until = 0
            else:
                # What no edit can free is above the trigger: half of what is left may fill before the next summary.
                room = settings.limit_tokens(self.gauge.window(self.port.model)) - receipt.tokens_after
                self._rest_until = receipt.tokens_after + max(self._rest_step, room // 2)
            if run.is_cancelled:
                raise asyncio.CancelledError
            return receipt

    def _lock(self) -> asyncio.Lock:
        """Return the lock of the running event loop: an agent may live through several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._busy is None or self._busy[0] is not loop:
            self._busy = (loop, asyncio.Lock())
        return self._busy[1]

    async def commit(self, swap: Swap, layer: Layer | None) -> bool:
        """Swap the agent's context and remember the summary layer that goes with it."""
        if not await self.port.swap(swap):
            return False
        if layer is not None:
            self.layers.remember(layer)
        return True

    def fitter(
        self,
        model: ModelPort,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]],
        *,
        settings: Settings,
    ) -> RequestFitter:
        """Return what fits one request of the host to one model."""
        while len(self.learnt_targets) > _TARGETS:
            self.learnt_targets.popitem(last=False)
        return RequestFitter(self, model, messages, tools, settings=settings)

    def shortener(self, settings: Settings, model_key: str) -> ShortenEdits:
        """Return what shortens blocks of this agent."""
        return ShortenEdits(
            codec=self.codec,
            guard=self.guard,
            ruler=self.ruler,
            settings=settings,
            session_id=self.port.session_id,
            media_tokens=lambda block: self.gauge.media_tokens(block, model_key=model_key),
            prior_ratio=lambda block: self.gauge.prior_ratio(block, model_key=model_key),
        )

    def learn(self, weight: Weight, input_tokens: int, *, model_key: str) -> None:
        """Anchor the estimates on a usage that the provider reported."""
        self.gauge.meter.learn_taken(model_key, input_tokens)
        self.gauge.meter.learn(weight, input_tokens, model_key=model_key)
        self.save_meter()

    def save_meter(self) -> None:
        """Keep what the meter has learnt in the agent's state."""
        self.port.slot["meter"] = self.gauge.meter.state()

    def is_over(self, tokens: int, limit_tokens: int, model_key: str) -> bool:
        """Whether a request is too large, as far as its estimate can be trusted."""
        sure = self.gauge.meter.is_anchored(model_key)
        return tokens > (limit_tokens if sure else limit_tokens * _UNSURE_RATIO)

    def tell_later(self, name: str, **value: object) -> None:
        """Keep an event for the next moment at which the host's stream can take it."""
        self._pending.append((name, dict(value)))

    def take_pending(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that were kept, and forget them."""
        pending, self._pending = self._pending, []
        return pending
