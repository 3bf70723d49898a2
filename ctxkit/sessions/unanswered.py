"""Requests that nobody has answered: they are asked again, so a context that is given back is without them.

What an agent has observed is not asked again. So the ids of what stood in a context before its first request are noted
in ctxkit's slot of the saved state (`middle_context`), as long as nobody has answered.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

from ctxkit.port import SLOT

_OBSERVED: Final = "observed"


def note_observed(slot: MutableMapping[str, Any], ids: Sequence[str], *, is_answered: bool) -> None:
    """Note what stands in a context before a request comes; where somebody has answered nothing need be noted.

    Args:
        slot: ctxkit's state of the agent.
        ids: Ids of the messages in the context.
        is_answered: Whether one of them, or a summary, is an answer.
    """
    if is_answered or not ids:
        slot.pop(_OBSERVED, None)
    else:
        slot[_OBSERVED] = list(ids)


def unanswered(state: Mapping[str, Any], messages: Sequence[Any]) -> set[str]:
    """Return the ids of the messages that are requests without an answer; none where somebody has answered.

    Args:
        state: A saved state as plain JSON; only its summary and ctxkit's slot are looked at.
        messages: The messages of its context, or of its transcript, as plain JSON.
    """
    requests = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    if state.get("summary") or len(requests) < len(messages):
        return set()
    contexts = state.get("middle_context")
    slot = contexts.get(SLOT) if isinstance(contexts, Mapping) else None
    noted = slot.get(_OBSERVED) if isinstance(slot, Mapping) else None
    observed = {one for one in noted if isinstance(one, str)} if isinstance(noted, list) else set()
    return {str(m.get("id")) for m in requests} - observed
