"""`CompressionMiddleware`: keeps an agent's context within its window, before each reasoning step and around each call."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from agentscope.middleware import MiddlewareBase
from agentscope.tool import ToolResponse

from ctxkit.errors import ConfigError, ContextUnfitError, StoreError, SummaryError
from ctxkit.host import _recall_tools, _results
from ctxkit.host._attached import Attachments
from ctxkit.host._call_limit import CallLimit
from ctxkit.host._calls import call_fitting
from ctxkit.host._hint import is_wanted
from ctxkit.host._late import bring_in_late
from ctxkit.host._tasks import OwnedTasks, event_of
from ctxkit.host.context_config import settings_of
from ctxkit.host.steering import Steering
from ctxkit.plan import Reason
from ctxkit.port import SLOT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

    from agentscope.agent import Agent
    from agentscope.message import HintBlock
    from agentscope.model import ChatResponse
    from agentscope.tool import ToolBase, ToolChunk

    from ctxkit.config import Settings
    from ctxkit.engine import Engine, Look, Preparation
    from ctxkit.host._attached import Attached
    from ctxkit.host._calls import CallNext
    from ctxkit.host.events import ContextEvent
    from ctxkit.offload import Store
    from ctxkit.plan import Receipt
    from ctxkit.port import EmitEvent

logger = logging.getLogger("ctxkit")

COMPRESSION_TOOL = "CompressContext"
"""Name of the host's tool by which an agent compresses its own context."""


class CompressionMiddleware(MiddlewareBase):
    """Keeps an agent's context within its window.

    One instance may serve many agents. It takes its settings from the agent's `context_config`, at each use. Close it
    when its agents are done (`async with`, or `aclose()`); the host has no hook for that.

    Args:
        local_store: Where a copy goes of what an offloader cannot give back, so that it can be recalled; in memory where
            unset. Not used beside ctxkit's own `LocalWorkspace` or a `StoreOffloader`.
    """

    def __init__(self, *, local_store: Store | None = None) -> None:
        self._agents = Attachments(local_store=local_store)
        self._tasks = OwnedTasks()

    @property
    def local_store(self) -> Store | None:
        """Where a copy goes of what an offloader cannot give back; `None` for in memory."""
        return self._agents.local_store

    async def get_middleware_key(self) -> str:
        """Return the key of ctxkit's state in `agent.state.middle_context`."""
        return SLOT

    async def list_tools(self) -> list[ToolBase]:
        """Return the recall tools, which AgentScope's service asks for; elsewhere they are registered at the first reply."""
        return _recall_tools.recall_tools()

    def receipts(self, agent: Agent) -> tuple[Receipt, ...]:
        """Return the receipts of an agent's compressions in this process, oldest first."""
        attached = self._agents.get(agent)
        return () if attached is None else tuple(attached.engine.receipts)

    def steering(self, agent: Agent) -> Steering:
        """Return the handle by which an agent that has this middleware is steered: preview, pin, explain, undo.

        Raises:
            ConfigError: It has no such middleware.
        """
        return Steering(agent)

    async def engine_of(self, agent: Agent) -> Engine:
        """Return the engine that serves an agent; for handles, not for users.

        Raises:
            ConfigError: ctxkit cannot serve it.
        """
        attached = await self._agents.attach(agent)
        if attached is None:
            msg = f"ctxkit cannot serve agent {agent.name!r}: the log says why."
            raise ConfigError(msg)
        return attached.engine

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Attach to the agent, and mark the time in which the host's own loop runs.

        Raises:
            ConfigError: The model's window is not known, or smaller than the config allows.
        """
        attached = await self._agents.attach(agent)
        if attached is None:
            async for item in next_handler():
                yield item
            return
        attached.window.check(agent, attached.engine)
        attached.engine.begins()
        await self._offer_recall(attached, agent)
        inner = next_handler()
        try:
            while True:
                try:
                    with attached.stepping():
                        item = await anext(inner)
                except StopAsyncIteration:
                    return
                finally:
                    # The hint is written by now, and whoever gets the event may leave the reply there for good.
                    attached.hint.take_back(agent)
                yield item
        finally:
            await inner.aclose()

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Make room before the model is asked, and pass on what came up while it was."""
        attached = await self._agents.attach(agent)
        if attached is None:
            async for item in next_handler():
                yield item
            return
        attached.hint.take_back(agent)
        settings = settings_of(agent.context_config)
        await bring_in_late(attached.engine, agent, settings)
        async for event in self._make_room(attached, agent):
            yield event
        limit = CallLimit(attached.engine, settings)
        async for item in next_handler(**limit.choice(agent, input_kwargs.get("tool_choice"))):
            yield item
            for name, value in attached.engine.take_pending():
                yield event_of(agent, name, value)

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[ToolChunk | ToolResponse, None]:
        """Admit each tool result to the context: what is oversized is stored whole and shortened."""
        attached = await self._agents.attach(agent)
        call = input_kwargs["tool_call"]
        if attached is None:
            async for chunk in next_handler():
                yield chunk
            return
        settings = settings_of(agent.context_config)
        limit = CallLimit(attached.engine, settings)
        if not limit.admit(call.name):
            yield limit.refusal()
            return
        before = attached.engine.last_receipt
        with attached.acting(call.name):
            async for chunk in next_handler():
                if isinstance(chunk, ToolResponse):
                    if call.name == COMPRESSION_TOOL:
                        last = attached.engine.last_receipt
                        new = [last] if last is not None and last is not before else []
                        chunk = _results.told_by_receipt(chunk, new)  # noqa: PLW2901 - what is passed on
                    else:
                        chunk = await _results.admitted(attached.engine, limit.told(chunk), call, settings)  # noqa: PLW2901 - as above
                yield chunk

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: CallNext
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        """Send a request that fits; where the provider still refuses it, send a smaller one."""
        attached = await self._agents.attach(agent)
        if attached is None:
            return await next_handler()
        settings = settings_of(agent.context_config)
        return await call_fitting(attached.engine, input_kwargs, next_handler, settings, own_model=agent.model)

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]
    ) -> None:
        """Compress where somebody asked for it; the host's own call before each step is answered by `on_reasoning`.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreError: What would leave the context could not be stored.
            SummaryError: No model made a summary, and the config forbids one without a model.
        """
        attached = await self._agents.attach(agent)
        if attached is None:
            await next_handler()
            return
        attached.hint.take_back(agent)
        config, instructions = input_kwargs.get("context_config"), input_kwargs.get("instructions")
        if config is None and instructions is None and attached.is_automatic:
            await self._tell_true_trigger(attached, agent)
            return
        reason = Reason.TOOL if attached.is_in_tool(COMPRESSION_TOOL) else Reason.MANUAL
        await attached.engine.compress(
            settings_of(config or agent.context_config), reason=reason, emit=_log_event, focus=_hint_text(instructions)
        )

    async def compact(self, agent: Agent, *, focus: str | None = None) -> Receipt | None:
        """Compress an agent's context now, whatever its trigger.

        Args:
            agent: An agent that has this middleware.
            focus: What the summary must look after, in the user's words.

        Returns:
            What came of it; None where ctxkit cannot serve the agent, which the log explains.

        Raises:
            ContextUnfitError: Not even everything that may be done makes the request fit.
            StoreError: What would leave the context could not be stored.
            SummaryError: No model made a summary, and the config forbids one without a model.
        """
        attached = await self._agents.attach(agent)
        if attached is None:
            return None
        settings = settings_of(agent.context_config)
        return await attached.engine.compress(settings, reason=Reason.MANUAL, emit=_log_event, focus=focus, force=True)

    async def aclose(self) -> None:
        """Cancel what still runs and wait for it; the agents' contexts, and summaries that were prepared, stay as they are."""
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        """Return the middleware itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    async def _offer_recall(self, attached: Attached, agent: Agent) -> None:
        """Give the agent the recall tools; asked at each reply, for its toolkit and state may be others by now."""
        try:
            wanted = settings_of(agent.context_config).offload.recall_tools
            if wanted and attached.engine.recall is not None:
                await _recall_tools.register(agent, attached.engine)
        except Exception:
            logger.exception("ctxkit could not register its recall tools for agent %r", agent.name)

    async def _tell_true_trigger(self, attached: Attached, agent: Agent) -> None:
        """Let the host's hint about the coming compression name the tokens at which it will come."""
        if not is_wanted(agent):
            return
        try:
            trigger = await attached.engine.trigger_tokens(settings_of(agent.context_config))
        except Exception:
            logger.exception("ctxkit could not tell the trigger of agent %r", agent.name)
            return
        attached.hint.lend(agent, trigger)

    async def _make_room(self, attached: Attached, agent: Agent) -> AsyncGenerator[ContextEvent, None]:
        """Compress where it is due, with events while it lasts; only refusal and cancellation leave this."""
        engine = attached.engine
        settings = settings_of(agent.context_config)
        try:
            look = await engine.look(settings)
            is_left = await self._is_left(attached, agent, look, settings)
        except Exception:
            logger.exception("ctxkit could not measure the context of agent %r", agent.name)
            return
        if look.is_due and not is_left:
            async for event in self._compress(engine, agent, settings):
                yield event

    async def _is_left(self, attached: Attached, agent: Agent, look: Look, settings: Settings) -> bool:
        """Begin a summary in the background where it is time; tell whether this step can go on without a compression."""
        if look.is_due and (look.decision is None or not look.decision.is_due):
            return False  # something oversized is shortened, which asks no model
        preparation = None
        if not attached.is_preparing:
            try:
                preparation = await attached.engine.preparation(look, settings)
            except Exception:
                logger.exception("ctxkit cannot prepare a summary for agent %r", agent.name)
        if preparation is None:
            return attached.engine.can_wait(look, settings)
        work = _prepared(attached.engine, preparation, agent.name)
        attached.preparing = self._tasks.start(work, name=f"ctxkit-prepare-{agent.name}")
        return True

    async def _compress(self, engine: Engine, agent: Agent, settings: Settings) -> AsyncGenerator[ContextEvent, None]:
        def work(emit: EmitEvent) -> Coroutine[Any, Any, Receipt]:
            return engine.compress(settings, reason=Reason.TRIGGER, emit=emit)

        try:
            async with aclosing(self._tasks.stream(work, agent, name=f"ctxkit-compress-{agent.name}")) as events:
                async for event in events:
                    yield event
        except ContextUnfitError:
            raise
        except (StoreError, SummaryError) as exc:
            logger.warning("ctxkit left the context of agent %r as it is: %s", agent.name, exc)
        except Exception:
            logger.exception("ctxkit left the context of agent %r as it is", agent.name)


async def _prepared(engine: Engine, preparation: Preparation, agent: str) -> None:
    """Make a summary that nobody waits for; what fails is tried again when the summary is due."""
    try:
        await engine.prepare(preparation)
    except (StoreError, SummaryError) as exc:
        logger.warning("ctxkit prepared no summary for agent %r: %s", agent, exc)
    except ReferenceError:
        logger.debug("agent %r was let go of while its summary was prepared", agent)
    except Exception:
        logger.exception("ctxkit prepared no summary for agent %r", agent)


def _hint_text(instructions: HintBlock | None) -> str | None:
    """Return the text of a caller's instructions for the summary."""
    if instructions is None:
        return None
    hint = instructions.hint
    return hint if isinstance(hint, str) else "\n".join(piece.text for piece in hint if piece.type == "text")


async def _log_event(name: str, value: Mapping[str, Any]) -> None:
    """A coroutine of the host cannot send events; what happens is logged."""
    logger.info("%s %s", name, value)
