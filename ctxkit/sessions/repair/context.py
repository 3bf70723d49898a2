"""Repairs a context, so that every provider takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ctxkit.sessions.repair.ids import mend_ids
from ctxkit.sessions.repair.mend import PairMender
from ctxkit.sessions.repair.report import Repaired

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Codec

_PASSES: Final = 10
"""A repair may uncover another defect, such as a call that meets its copy when what stood between them is gone. Each pass
takes something away or brings a pair together; two have always been enough."""


def repair_context(
    messages: Sequence[Msg], *, agent_name: str | None, reply_id: str, codec: Codec, is_running: bool = False
) -> Repaired:
    """Return a context in which every call has its one result behind it, in the same message.

    A missing result becomes an error; a result without a call, a second result and a call without an id, a name or
    arguments are dropped; a result that does not follow its call is moved there. Calls that wait for a person, or for
    another program, stay as they are, and so do the other calls of a reply that is parked with them. Ids that stand
    there twice and empty messages are mended too.

    It is pure and takes milliseconds for thousands of blocks.

    Args:
        messages: The context, oldest message first; it is not changed.
        agent_name: Name of the agent whose context it is; `None` where it is not known.
        reply_id: Id of the reply that ran last (`agent.state.reply_id`).
        codec: Builds what is new.
        is_running: That reply runs in this very process: its message stays and its calls are left alone. Not so after
            a restart, when no call is coming back but those that wait outside.

    Returns:
        The context, what was done, and what was dropped: store that first. A context without a defect comes back as the
        very same messages.
    """
    repaired = Repaired(messages=list(messages))
    for _ in range(_PASSES):
        unique = mend_ids(repaired.messages, codec, reply_id=reply_id)
        mender = PairMender(unique.messages, codec, agent_name=agent_name, reply_id=reply_id, is_running=is_running)
        paired = mender.mended()
        if not unique.repairs and not paired.repairs:
            break
        repaired = Repaired(
            messages=paired.messages,
            repairs=[*repaired.repairs, *unique.repairs, *paired.repairs],
            dropped=[*repaired.dropped, *unique.dropped, *paired.dropped],
        )
    return repaired
