"""The kit of one agent: what all parts of its engine work with."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ctxkit import telemetry
from ctxkit.engine.gauge import Gauge
from ctxkit.engine.pins import Pins
from ctxkit.engine.sent import SentLog
from ctxkit.engine.shorten import ShortenEdits
from ctxkit.offload import Recall
from ctxkit.tokens import Meter, Ruler
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxkit.config import Settings
    from ctxkit.offload import OffloadGuard
    from ctxkit.plan import Draft
    from ctxkit.port import AgentPort, Codec
    from ctxkit.tokens import Counter, Weight

logger = logging.getLogger("ctxkit")

_UNSURE_RATIO = 1.5
"""Before the provider has reported a usage, a request counts as too large only from this share of its limit on: a prior
tokenizer was seen to be wrong by up to 40% on the content of another model's (research on o200k, Qwen, Claude)."""


class Kit:
    """What the parts of one agent's engine share: the agent itself, what measures, stores and shortens, and what was learnt.

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
        self.pins = Pins(port, codec)
        self.sent = SentLog(self)
        """The agent's last request, which a warm summary call extends."""
        self.learnt_targets: OrderedDict[tuple[str, int, str, int], int] = OrderedDict()
        """What requests that were refused aim at, by what tells them apart."""
        self.cleared_until: tuple[str, int] | None = None
        """Where the context ended, by message id and its blocks, when a provider took none but a cleared request of it; the
        context itself is cleared so far when there is time for it."""
        self.store_problem: str | None = None
        """Why what was to leave the context could not be stored last time; None where it was."""
        self.listeners: tuple[Callable[[Any], Any], ...] = ()
        """Told of each compression with an `AfterCompression`, as the user's own hooks are, and behind them."""
        self.overflow_listeners: tuple[Callable[[], None], ...] = ()
        """Told when a provider refuses a request for its size, once a request; nobody waits for what they start."""
        self._pending: list[tuple[str, dict[str, Any]]] = []

    def store_through(self, guard: OffloadGuard) -> None:
        """Store what leaves the context through this guard from now on."""
        self.guard = guard
        guard.on_redacted = lambda counts: self.tell_later(telemetry.REDACTED, counts=dict(counts))
        self.recall = None if guard.store is None else Recall(guard.store)
        """Reads back what was stored; None where nothing can be."""

    def view(self) -> View:
        """Return a view of the context as it is now."""
        return View(self.port.context, agent_name=self.port.name, reply_id=self.port.reply_id)

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

    def is_over(self, tokens: int, limit_tokens: int, model_key: str) -> bool:
        """Whether a request is too large, as far as its estimate can be trusted."""
        sure = self.gauge.meter.is_anchored(model_key)
        return tokens > (limit_tokens if sure else limit_tokens * _UNSURE_RATIO)

    def learn(self, weight: Weight, input_tokens: int, *, model_key: str) -> None:
        """Anchor the estimates on a usage that the provider reported."""
        self.gauge.meter.learn_taken(model_key, input_tokens)
        self.gauge.meter.learn(weight, input_tokens, model_key=model_key)
        self.save_meter()

    def save_meter(self) -> None:
        """Keep what the meter has learnt in the agent's state."""
        self.port.slot["meter"] = self.gauge.meter.state()

    def charge(self, draft: Draft) -> None:
        """Charge what a summary cost that no swap will bring in; where the agent is gone by now, it is logged."""
        if draft.usage is None:
            return
        try:
            self.port.charge(draft.usage)
        except ReferenceError:
            logger.info("the agent whose summary cost %d input tokens is gone", draft.usage.input_tokens)

    def tell_overflow(self) -> None:
        """Tell that a provider has refused a request for its size; what a listener raises is logged."""
        for listener in self.overflow_listeners:
            try:
                listener()
            except Exception:
                logger.exception(
                    "who was told that a request was refused raised; the request is made smaller all the same"
                )

    def tell_later(self, name: str, **value: object) -> None:
        """Keep an event for the next moment at which the host's stream can take it."""
        self._pending.append((name, dict(value)))

    def take_pending(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that were kept, and forget them."""
        pending, self._pending = self._pending, []
        return pending
