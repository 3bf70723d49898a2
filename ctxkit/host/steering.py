"""`Steering`: see what a compression would do and did, say what must stay, and take a compression back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from agentscope.agent import Agent
from agentscope.state import AgentState

from ctxkit.engine import Engine
from ctxkit.engine.pins import Pin, Pins
from ctxkit.errors import ConfigError
from ctxkit.host import _compat
from ctxkit.host._codec import HostCodec
from ctxkit.host._port import HostPort
from ctxkit.host._state_port import StatePort
from ctxkit.host.context_config import settings_of
from ctxkit.offload import OffloadGuard, Store, StoreOffloader
from ctxkit.offload.redact import DEFAULT_REDACTOR
from ctxkit.plan import Reason
from ctxkit.tokens import load_counter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.steer.explain import Explanation
    from ctxkit.engine.steer.preview import Preview
    from ctxkit.engine.steer.undo import Undone
    from ctxkit.offload.redact import Redactor
    from ctxkit.plan import Receipt

logger = logging.getLogger("ctxkit")

_TIMEOUT_S = 10.0


class Steering:
    """One handle to see and steer what ctxkit does to an agent's context.

    Make it from an agent that has a `CompressionMiddleware`, or from an `AgentState` where there is no agent: then it
    explains, pins and takes back, and cannot preview or compact, for there is no model. What it returns has `to_json`.

    Args:
        of: The agent, or a state, which is changed in place and is saved by you.
        store: Of a state: where its content is, or an offloader or a workspace that has such a `store`. An agent has its
            own.
        redactor: Of a state: redacts what is stored.

    Raises:
        ConfigError: The agent has no `CompressionMiddleware`.
    """

    def __init__(
        self,
        of: Agent | AgentState,
        *,
        store: object | None = None,
        redactor: Redactor | None = DEFAULT_REDACTOR,
    ) -> None:
        self._of = of
        self._store = _store_of(store)
        self._redactor = redactor
        self._own: Engine | None = None
        if isinstance(of, Agent):
            compression_of(of)

    @classmethod
    def of(cls, agent: Agent) -> Self:
        """Return the handle of an agent that has a `CompressionMiddleware`.

        Raises:
            ConfigError: It has none.
        """
        return cls(agent)

    async def preview(self, *, focus: str | None = None, draft: bool = True) -> Preview:
        """Return what `compact` would do now; the context stays as it is.

        Args:
            focus: What the summary must look after, in the user's words.
            draft: Make the summary, once: a compression with the same focus then uses it. False estimates what it would
                take and asks no model.

        Raises:
            ConfigError: The handle was made from a state.
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreError: What would leave the context could not be stored.
            SummaryError: No model made a summary, and the config forbids one without a model.
        """
        engine = await self._engine()
        return await engine.steer.preview(self._needed_settings(), focus=focus, draft=draft)

    async def compact(self, *, focus: str | None = None) -> Receipt:
        """Compress the context now, whatever its trigger; `why` of what is returned says why nothing was done.

        Args:
            focus: What the summary must look after, in the user's words.

        Raises:
            ConfigError: The handle was made from a state.
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreError: What would leave the context could not be stored.
            SummaryError: No model made a summary, and the config forbids one without a model.
        """
        engine = await self._engine()
        return await engine.compress(
            self._needed_settings(), reason=Reason.MANUAL, emit=_log_event, focus=focus, force=True
        )

    async def pin(self, item: Msg | str) -> Pin:
        """Let something stay word for word until it is unpinned.

        A message stays in its place; where the window is too small for that, it stands first in the summary layer from
        the next compression on. A text becomes a message of the user's at the end of the context, which changes no byte
        of a prompt cache; between a call and its result it waits for the next turn. The system prompt is left alone.

        Args:
            item: A message, the id of a message in the context, or a text.

        Raises:
            ConfigError: The pins would take more than `SummaryConfig.pins_share_ratio` allows.
        """
        return await (await self._engine()).steer.pin(item, self._settings())

    def unpin(self, pin_id: str) -> bool:
        """Let something leave again; return whether it was pinned. In the summary layer it stands until the next edit.

        Args:
            pin_id: Id of the message, as `pins` has it.
        """
        return self._pins().remove(pin_id)

    def pins(self) -> tuple[Pin, ...]:
        """Return what is pinned, the oldest pin first."""
        return self._pins().all()

    async def explain(self, item_id: str) -> Explanation:
        """Return what became of a message: which compressions touched it, by which rule, and where it is now.

        Args:
            item_id: Id of the message, of a block of it, or of a call.

        Raises:
            StoreReadError: The store cannot be read.
        """
        return await (await self._engine()).steer.explain(item_id)

    async def undo(self, plan_id: str | None = None) -> Undone:
        """Take a compression back, the newest first; refused with a reason where what was stored no longer joins.

        What came since stays behind it. Secrets stay replaced, as they were stored. Afterwards nothing is compressed by
        itself for three turns, as long as requests are safe to fit. The stream of the next reply tells it.

        A cancellation leaves the context as it was, or comes when all of it is done.

        Args:
            plan_id: The newest one that was not taken back, as its receipt names it; `None` for whichever that is.
        """
        return await (await self._engine()).steer.undo(plan_id, self._settings())

    async def _engine(self) -> Engine:
        if isinstance(self._of, Agent):
            engine: Engine = await compression_of(self._of).engine_of(self._of)
            return engine
        if self._own is None:
            codec = HostCodec()
            offloader = None if self._store is None else StoreOffloader(self._store, codec, redactor=self._redactor)
            guard = OffloadGuard(offloader, codec=codec, timeout_s=_TIMEOUT_S, redactor=self._redactor)
            self._own = Engine(StatePort(self._of), codec, counter=await load_counter(), guard=guard)
        return self._own

    def _pins(self) -> Pins:
        port = HostPort(self._of) if isinstance(self._of, Agent) else StatePort(self._of)
        return Pins(port, HostCodec())

    def _settings(self) -> Settings | None:
        return settings_of(self._of.context_config) if isinstance(self._of, Agent) else None

    def _needed_settings(self) -> Settings:
        settings = self._settings()
        if settings is None:
            msg = "Steering was made from an AgentState, which has no model: make it from the agent to preview and compact."
            raise ConfigError(msg)
        return settings


def _store_of(given: object | None) -> Store | None:
    """Return a store: what was given, or what an offloader or a workspace stands on."""
    store = getattr(given, "store", given)
    if store is not None and not isinstance(store, Store):
        msg = f"Steering(store={given!r}): give a store, or an offloader or a workspace of ctxkit's that has one."
        raise ConfigError(msg)
    return store


def compression_of(agent: Agent) -> Any:
    """Return an agent's `CompressionMiddleware`."""
    for middleware in _compat.middlewares_of(agent):
        if callable(getattr(middleware, "engine_of", None)):
            return middleware
    msg = f"Agent {agent.name!r} has no CompressionMiddleware to be steered: give it one."
    raise ConfigError(msg)


async def _log_event(name: str, value: Mapping[str, Any]) -> None:
    """Nobody listens to a stream of events here; what happens is logged."""
    logger.info("%s %s", name, value)
