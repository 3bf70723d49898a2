"""ctxkit's events in AgentScope's stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentscope.event import CustomEvent

if TYPE_CHECKING:
    from collections.abc import Mapping


class ContextEvent(CustomEvent):
    """What ctxkit does while a reply runs; `name` and `value` are described in `ctxkit.telemetry`.

    It carries the reply's id: up to AgentScope 2.0.10 a custom event without one crashes whoever rebuilds messages from
    the stream, its own service included.
    """

    reply_id: str
    """The reply that the event belongs to."""


def context_event(name: str, value: Mapping[str, Any], *, reply_id: str) -> ContextEvent:
    """Return an event for the host's stream."""
    return ContextEvent(name=name, value=dict(value), reply_id=reply_id)
