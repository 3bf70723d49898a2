"""The host's versions: what an older AgentScope lacks, and the few private names in use, each with a canary test.

Every switch asks for a feature, never for a version. Private names in use, all of them stable from 2.0.0 to 2.0.11:

- `Agent._prepare_model_input()`: the request as the host would send it, transforms of other middlewares included.
- `Agent._reply_middlewares`: the middlewares that have `on_reply`, in the order in which they were given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import Msg, Usage
from pydantic import Field, create_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.agent import Agent
    from agentscope.middleware import MiddlewareBase

    from ctxkit.port import Usage as CallUsage

_NEWER_FIELDS: dict[str, tuple[type, Any]] = {
    "context_buffer_ratio": (float, Field(default=0.2, ge=0, le=1)),
    "compression_fallback_to_truncation": (bool, Field(default=True)),
    "compression_tool_enabled": (bool, Field(default=False)),
    "max_image_num": (int, Field(default=5, ge=0)),
}
"""Fields of AgentScope 2.0.8 that 2.0.6 lacks, with their defaults and bounds."""


def complete_config_class() -> type[HostContextConfig]:
    """Return the host's `ContextConfig`, or a subclass that has the fields which an older host lacks."""
    lacking = {name: spec for name, spec in _NEWER_FIELDS.items() if name not in HostContextConfig.model_fields}
    if not lacking:
        return HostContextConfig
    return create_model("ContextConfig", __base__=HostContextConfig, **lacking)  # type: ignore[call-overload, no-any-return]  # the fields are dynamic


async def prepare_request(agent: Agent) -> tuple[list[Msg], list[dict[str, Any]]]:
    """Return messages and tool schemas of the request that the host would send now."""
    prepared = await agent._prepare_model_input()  # noqa: SLF001 - no public twin; canary in tests/host
    return prepared["messages"], prepared.get("tools") or []


def middlewares_of(agent: Agent) -> Sequence[MiddlewareBase]:
    """Return an agent's middlewares that have `on_reply`, the outermost first."""
    return agent._reply_middlewares  # noqa: SLF001 - no public twin; canary in tests/host


def is_in_service(agent: Agent) -> bool:
    """Whether AgentScope's service runs the agent; it puts middlewares of its own into each agent that it assembles."""
    return any(type(middleware).__module__.startswith("agentscope.app.") for middleware in middlewares_of(agent))


def reply_usage(agent: Agent) -> Usage | None:
    """Return the usage that the running reply has gathered, if any."""
    tail = agent.state.context[-1] if agent.state.context else None
    if tail is None or tail.role != "assistant" or tail.id != agent.state.reply_id or tail.name != agent.name:
        return None
    return tail.usage.model_copy() if tail.usage is not None else None


def added_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return two usages together."""
    if one is None or other is None:
        return one or other
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.model_fields})


def add_usage(message: Msg, usage: CallUsage) -> None:
    """Add a call's usage to a message; what an older host has no field for is left out."""
    added = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    before = message.usage.model_dump() if message.usage is not None else {}
    message.usage = Usage(**{name: before.get(name, 0) + added[name] for name in Usage.model_fields if name in added})
