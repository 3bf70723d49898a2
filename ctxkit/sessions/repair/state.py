"""Repairs a saved state: AgentScope's `AgentState` as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctxkit.sessions.repair.context import repair_context
from ctxkit.sessions.repair.report import Repair, RepairedState
from ctxkit.sessions.repair.shape import shape

if TYPE_CHECKING:
    from ctxkit.port import Codec


def repair_state(state: Mapping[str, Any], codec: Codec, *, agent_name: str | None = None) -> RepairedState:
    """Return a state whose context AgentScope loads and every provider takes.

    It is pure and reads each message once; call it in a thread where the state is large.

    Args:
        state: `AgentState.model_dump(mode="json")`; it is not changed.
        codec: Reads and builds messages.
        agent_name: Name of the agent whose state it is; where it is `None`, the last message is taken to be its own.

    Returns:
        The state, what was done, and what was dropped: store that first. A state without a defect comes back as the very
        same object, and messages without one as their very same JSON.
    """
    context = state.get("context", [])
    if not isinstance(context, list):
        what = f"the context is no list of messages but {type(context).__name__}: it was dropped"
        repair = Repair(kind="broken_message", what=what)
        return RepairedState(state={**state, "context": []}, repairs=[repair], dropped=[{"broken": context}])
    shaped = shape(context, codec)
    repaired = repair_context(shaped.messages, agent_name=agent_name, reply_id=reply_id_of(state), codec=codec)
    if not shaped.repairs and not repaired.repairs and len(shaped.sources) == len(context):
        return RepairedState(state=state)
    messages = [shaped.sources.get(id(message)) or json.loads(codec.dump(message)) for message in repaired.messages]
    dropped = [shaped.sources.get(id(message)) or json.loads(codec.dump(message)) for message in repaired.dropped]
    return RepairedState(
        state={**state, "context": messages},
        repairs=[*shaped.repairs, *repaired.repairs],
        dropped=[*dropped, *({"broken": item} for item in shaped.broken)],
    )


def reply_id_of(state: Mapping[str, Any]) -> str:
    """Return the id of the reply that ran last, where this and earlier versions of AgentScope keep it."""
    reply = state.get("reply_context")
    found = reply.get("reply_id") if isinstance(reply, Mapping) else state.get("reply_id")
    return found if isinstance(found, str) else ""
