"""What a repair says it did: one line for each defect, and everything that it took away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agentscope.message import Msg

Kind = Literal[
    "missing_result",
    "orphan_result",
    "duplicate_result",
    "misplaced_result",
    "incomplete_call",
    "duplicate_call",
    "stuck_call",
    "duplicate_message",
    "empty_message",
    "broken_message",
    "broken_block",
    "misplaced_block",
    "dangling_reference",
]
"""What was wrong."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    """One defect and what was done about it."""

    kind: Kind
    what: str
    """What was wrong and what was done, in words."""
    message_id: str | None = None
    """The message in which it was found; `None` where it had no id."""
    block_id: str | None = None
    """The call, result or reference that it is about; `None` where it is about the message."""


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """A context that a provider takes."""

    messages: Sequence[Msg]
    """The context; messages that had no defect are the very same objects."""
    repairs: Sequence[Repair] = ()
    """What was done, in the order of the context; empty where nothing was wrong."""
    dropped: Sequence[Msg] = ()
    """What was taken away, to be stored before the context is used: whole messages, and for blocks a copy of their
    message that has only these. A message whose blocks have all moved elsewhere stands here without any."""


@dataclass(frozen=True, kw_only=True)
class RepairedState:
    """A saved state that AgentScope loads and whose context a provider takes."""

    state: Mapping[str, Any]
    """The state as plain JSON; the very same object where nothing was wrong."""
    repairs: Sequence[Repair] = ()
    dropped: Sequence[Mapping[str, Any]] = field(default=())
    """What was taken away, as JSON of messages; see `Repaired.dropped`. What no message could be made of stands as it is
    under the key `"broken"`."""
