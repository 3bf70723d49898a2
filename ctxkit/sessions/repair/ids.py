"""Message ids that stand in a context more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxkit.sessions.repair.report import Repair, Repaired

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Codec


def mend_ids(messages: Sequence[Msg], codec: Codec, *, reply_id: str) -> Repaired:
    """Return the context with each message id once.

    Of two messages with one id, the one that holds nothing but the beginning of the other is dropped; of equal ones the
    later. Where both hold something of their own both stay, and the later gets a new id. The last message keeps its id
    if that is the reply's: AgentScope finds a parked reply by it.

    Args:
        messages: The context, oldest message first.
        codec: Builds the message with the new id.
        reply_id: Id of the reply that runs or ran last.
    """
    kept: dict[int, Msg] = dict(enumerate(messages))
    holders: dict[str, int] = {}
    taken = {reply_id, *(message.id for message in messages)}
    repairs: list[Repair] = []
    dropped: list[Msg] = []
    for index, message in enumerate(messages):
        first = holders.setdefault(message.id, index)
        if first == index:
            continue
        is_reply = message.id == reply_id and index == len(messages) - 1
        if _holds(kept[first], message) and not is_reply:
            gone = index
        elif _holds(message, kept[first]):
            gone, holders[message.id] = first, index
        else:
            gone = None
        if gone is not None:
            dropped.append(kept.pop(gone))
            what = f"message {message.id!r} is there twice: the one that has nothing of its own was dropped"
        else:
            renamed, name = first if is_reply else index, _free_id(message.id, taken)
            kept[renamed] = codec.with_id(kept[renamed], name)
            what = f"message {message.id!r} has the id of another one: it is {name!r} now"
        repairs.append(Repair(kind="duplicate_message", what=what, message_id=message.id))
    return Repaired(messages=list(kept.values()), repairs=repairs, dropped=dropped)


def _holds(message: Msg, other: Msg) -> bool:
    """Return whether a message begins with all that another one has."""
    same = (message.role, message.name) == (other.role, other.name)
    return same and list(message.content[: len(other.content)]) == list(other.content)


def _free_id(identifier: str, taken: set[str]) -> str:
    number = 2
    while (name := f"{identifier or 'message'}-{number}") in taken:
        number += 1
    taken.add(name)
    return name
