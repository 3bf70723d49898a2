"""The provider's prompt cache: asked for where it must be, and what is sent seen as the model gets it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from types import new_class
from typing import TYPE_CHECKING, Any, Final, cast

from ctxkit.port import Request
from ctxkit.tokens.prefix import WireRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from agentscope.message import Msg
    from agentscope.model import ChatModelBase, ChatResponse
    from agentscope.tool import ToolChoice

    from ctxkit.engine.sent import SentLog

logger = logging.getLogger("ctxkit")

_ON_REQUEST: Final[Mapping[str, Mapping[str, Any]]] = {
    "AnthropicChatModel": {"cache_control": {"type": "ephemeral"}},
    "MiniMaxChatModel": {},  # a subclass of Anthropic's whose provider documents marks on blocks only
}
"""Host class to the keywords by which its provider caches automatically (Anthropic's prompt caching docs: `cache_control` at
the top of a request); a subclass counts as the class of the host that it extends."""

_LOAN: Final = "_ctxkit_loan"


def cache_options(model: ChatModelBase) -> Mapping[str, Any]:
    """Return the keywords of a model call that ask its provider to cache; empty where it does so by itself."""
    return next((_ON_REQUEST[kind.__name__] for kind in type(model).__mro__ if kind.__name__ in _ON_REQUEST), {})


async def wire_request(
    model: ChatModelBase, messages: Sequence[Msg], tools: Sequence[Mapping[str, Any]] = (), *, has_summary: bool = False
) -> WireRequest:
    """Return a request as a model's formatter hands it to the provider, for `prefix_audit`.

    Args:
        model: A chat model of AgentScope's that has a formatter.
        messages: What is sent, system prompt first.
        tools: The tool schemas.
        has_summary: Whether the message behind the system prompt is the summary layer.
    """
    formatted = await model.formatter.format(list(messages))  # type: ignore[attr-defined]  # all of the host's classes have one, their base does not declare it
    prompt = ["system prompt"] if messages and messages[0].role == "system" else []
    return WireRequest(messages=formatted, tools=list(tools), layers=[*prompt, *(["summary"] if has_summary else [])])


@dataclass(frozen=True, kw_only=True)
class _Loan:
    """What a lent model has beside what the model has."""

    model: ChatModelBase
    options: Mapping[str, Any]
    log: SentLog | None


def lent(model: ChatModelBase, *, options: Mapping[str, Any], log: SentLog | None) -> ChatModelBase:
    """Return a stand-in of a model for one call, which adds keywords and remembers what was sent.

    Inner middlewares may change a request behind ctxkit's hook, so only the model itself sees all of it. The stand-in is of
    the model's own class and shares its attributes, so nobody who looks at it sees another model.

    Args:
        model: The model that is called.
        options: Keywords that are added to the call; those that a caller gives win.
        log: Remembers the request; `None` for nothing.
    """
    kind: type = type(model)
    if any(vars(base).get("__slots__") for base in kind.__mro__):
        return model  # what lies in slots cannot be shared
    try:
        stand_in: Any = object.__new__(_lent_class(kind))
    except TypeError:
        logger.debug("a model of class %s cannot be stood in for, it is called as it is", kind, exc_info=True)
        return model
    stand_in.__dict__ = model.__dict__
    setattr(stand_in, _LOAN, _Loan(model=model, options=options, log=log))
    return cast("ChatModelBase", stand_in)


@lru_cache(maxsize=64)
def _lent_class(kind: type) -> type:
    """Return a subclass of a model's class that hands its calls to the model it stands in for."""

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__slots__"] = (_LOAN,)  # beside the shared attributes
        namespace["__module__"] = kind.__module__
        namespace["__qualname__"] = kind.__qualname__
        namespace["__call__"] = _call
        namespace["__del__"] = _keep_open

    return new_class(kind.__name__, (kind,), exec_body=fill)


def _keep_open(_: object) -> None:
    """Close nothing when a stand-in goes: what a model's own `__del__` would close is the model's."""


async def _call(
    self: object,
    messages: list[Msg],
    tools: list[dict[str, Any]] | None = None,
    tool_choice: ToolChoice | None = None,
    **options: Any,
) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
    """Call the model that this object stands in for; see `ChatModelBase.__call__`."""
    loan: _Loan = getattr(self, _LOAN)
    asked = {**loan.options, **options}
    sent = None
    if loan.log is not None:
        request = Request(messages=list(messages), tools=list(tools or ()), tool_choice=tool_choice, options=asked)
        sent = loan.log.seen(request)
    answer = await loan.model(messages=messages, tools=tools, tool_choice=tool_choice, **asked)
    if sent is not None and loan.log is not None:
        await loan.log.keep(sent)
    return answer
