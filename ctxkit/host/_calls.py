"""Calls of a model: a request that fits is sent, and a smaller one where the provider still refuses it."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentscope.model import ChatResponse

from ctxkit.engine.placement import in_first_user_message
from ctxkit.errors import ContextUnfitError
from ctxkit.host._cache import cache_options, lent
from ctxkit.host._port import HostModel, call_usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from agentscope.message import Msg
    from agentscope.model import ChatModelBase

    from ctxkit.config import Settings
    from ctxkit.engine import Engine, RequestFitter

    ModelAnswer = ChatResponse | AsyncGenerator[ChatResponse, None]
    CallNext = Callable[..., Awaitable[ModelAnswer]]
    """The host's next handler of a model call; keywords replace what was passed to the hook."""
    Send = Callable[[Sequence[Msg]], Awaitable[ModelAnswer]]

logger = logging.getLogger("ctxkit")

_SAID_CHARS = 500


async def call_fitting(
    engine: Engine, call: Mapping[str, Any], next_handler: CallNext, settings: Settings, *, own_model: ChatModelBase
) -> ModelAnswer:
    """Call a model with a view of the request that fits it, and learn from what its provider answers.

    Args:
        engine: The agent's engine.
        call: What the host passes to `on_model_call`.
        next_handler: Calls the model.
        settings: How to shorten, and whether to ask the provider for its cache.
        own_model: The agent's own model; of another one, a fallback, nothing is remembered and no cache asked for.

    Raises:
        ContextUnfitError: It is certain that no view of the request fits.
    """
    model: ChatModelBase = call["current_model"]
    fitter = engine.fitter(HostModel(model), call["messages"], call["tools"], settings=settings)
    try:
        messages = await fitter.first()
    except ContextUnfitError:
        raise
    except Exception:
        logger.exception("ctxkit could not measure a request, it is sent as it is")
        return await next_handler()
    send = _sender(engine, call, next_handler, settings, own_model=own_model)
    answer = await _ask(fitter, messages, send)
    if isinstance(answer, ChatResponse):
        _learn(fitter, answer, model)
        return answer
    return _watched(answer, fitter, send, model)


def _sender(
    engine: Engine, call: Mapping[str, Any], next_handler: CallNext, settings: Settings, *, own_model: ChatModelBase
) -> Send:
    """Return what sends messages to the model; of the agent's own, what goes out whole is remembered."""
    model: ChatModelBase = call["current_model"]

    def placed(messages: Sequence[Msg]) -> list[Msg]:
        is_apart = settings.summary.placement == "layer" or not engine.port.summary
        return list(messages if is_apart else in_first_user_message(messages, engine.codec))

    if model is not own_model:
        return lambda messages: next_handler(messages=placed(messages))
    options = cache_options(model) if settings.cost.ask_for_cache else {}

    def send(messages: Sequence[Msg]) -> Awaitable[ModelAnswer]:
        is_whole = messages is call["messages"]
        if not is_whole:
            engine.sent.forget()  # a smaller view holds less than the context, which a summary must see whole
        stand_in = lent(model, options=options, log=engine.sent if is_whole else None)
        return next_handler(messages=placed(messages), current_model=stand_in)

    return send


async def _smaller(fitter: RequestFitter, error: Exception) -> Sequence[Msg] | None:
    """Return a smaller view of a refused request, or None where the error is to be raised."""
    try:
        return await fitter.after_refusal(error)
    except ContextUnfitError as unfit:
        unfit.add_note(f"The provider said: {str(error)[:_SAID_CHARS]}")  # the host cuts the cause off
        raise unfit from error
    except Exception:
        logger.exception("ctxkit could not make a refused request smaller")
        return None


async def _watched(
    stream: AsyncGenerator[ChatResponse, None],
    fitter: RequestFitter,
    send: Send,
    model: ChatModelBase,
) -> AsyncGenerator[ChatResponse, None]:
    """Pass a stream on, learn from its usage, and start anew with a smaller request where it breaks off by overflow."""
    while True:
        error = None
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    if chunk.is_last:
                        _learn(fitter, chunk, model)
                    yield chunk
        except Exception as exc:  # noqa: BLE001 - as in `_ask`
            error = exc
        if error is None:
            return
        messages = await _smaller(fitter, error)
        if messages is None:
            raise error
        # Ends the blocks that were begun, so that what comes now is not taken for their continuation.
        yield ChatResponse(content=[], is_last=False)
        answer = await _ask(fitter, messages, send)
        if isinstance(answer, ChatResponse):
            _learn(fitter, answer, model)
            yield answer
            return
        stream = answer


async def _ask(fitter: RequestFitter, messages: Sequence[Msg], send: Send) -> ModelAnswer:
    """Ask with a view, and with smaller and smaller ones until one is answered, or raise."""
    while True:
        try:
            return await send(messages)
        except Exception as exc:  # noqa: BLE001 - whatever a provider raises is looked at, and raised again if it is no overflow
            error = exc
        # Outside of the handler, or the next try's error would have this one as its context and be taken for the same.
        smaller = await _smaller(fitter, error)
        if smaller is None:
            raise error
        messages = smaller


def _learn(fitter: RequestFitter, answer: ChatResponse, model: ChatModelBase) -> None:
    """Learn from the usage that an answer reports; one that makes no sense must not cost the answer."""
    try:
        usage = call_usage(answer.usage, model)
        if usage is not None:
            fitter.learn(usage.input_tokens)
    except Exception:
        logger.exception("ctxkit could not read the usage %r of %s", answer.usage, type(model).__name__)
