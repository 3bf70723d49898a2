"""The engine of one agent: it measures, decides, and carries out; all that it keeps is about this agent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ctxkit import telemetry
from ctxkit.engine.compress import Compression
from ctxkit.engine.draft import Drafts
from ctxkit.engine.journal import Journal
from ctxkit.engine.kit import Kit
from ctxkit.engine.layer import Layers
from ctxkit.engine.request import RequestFitter
from ctxkit.engine.run import Run
from ctxkit.engine.watch import Watch
from ctxkit.sessions.lanes import GLOBAL, PROCESS_LANES, session_lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.watch import Look
    from ctxkit.offload import OffloadGuard
    from ctxkit.plan import Reason, Receipt
    from ctxkit.port import AgentPort, Codec, EmitEvent, ModelPort
    from ctxkit.tokens import Counter

_TARGETS = 32
"""How many requests' learnt targets are kept."""


class Engine(Kit):
    """One agent's engine: its kit, and what drives it.

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
        super().__init__(port, codec, counter=counter, guard=guard, clock=clock)
        self.receipts: deque[Receipt] = deque(maxlen=64)
        self._layers = Layers(self)
        self._journal = Journal(self, self._layers)
        self._drafts = Drafts(self, self._layers)
        self._watch = Watch(self)
        self._busy: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def last_receipt(self) -> Receipt | None:
        """What came of the last compression, if there was one."""
        return self.receipts[-1] if self.receipts else None

    async def look(self, settings: Settings) -> Look:
        """Measure the next request and what is new in the context; costs what is new."""
        return await self._watch.look(settings)

    async def compress(
        self, settings: Settings, *, reason: Reason, emit: EmitEvent, focus: str | None = None, force: bool = False
    ) -> Receipt:
        """Compress where it is due; one compression of a session at a time, or of the process where its lane says so.

        What fails leaves a receipt and is told as well as raised; what is cancelled leaves none.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreWriteError: What would leave could not be stored, and so it stays.
            SummaryError: No model made a summary, and the settings forbid one without a model.
        """
        lanes = [session_lane(self.port.session_id), *([GLOBAL] if settings.summary.lane == "global" else [])]
        async with self._lock(), PROCESS_LANES.enter(*lanes):
            run = Run(kit=self, layers=self._layers, journal=self._journal, settings=settings, reason=reason, emit=emit)
            try:
                receipt = await Compression(run=run, drafts=self._drafts, focus=focus, force=force).carry_out()
            except Exception as exc:
                failed = run.failed(exc)
                self.receipts.append(failed)
                self._watch.failed(exc)
                await emit(telemetry.FAILED, failed.to_json())
                raise
            self.receipts.append(receipt)
            self._watch.ended(receipt, settings)
            if run.is_cancelled:
                raise asyncio.CancelledError
            return receipt

    def _lock(self) -> asyncio.Lock:
        """Return the lock of the running event loop: an agent may live through several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._busy is None or self._busy[0] is not loop:
            self._busy = (loop, asyncio.Lock())
        return self._busy[1]

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
