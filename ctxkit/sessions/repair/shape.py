"""Makes messages of plain JSON that has parts which are none: what can be read is read, the rest is handed out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ctxkit.sessions.repair.report import Kind, Repair

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Codec

_ALLOWED: Final = {"user": {"text", "data"}, "system": {"text"}}
"""Types of the blocks that a message of a role may have, where AgentScope has rules about it."""


@dataclass
class Shaped:
    """The messages of a saved context, as far as they are some."""

    messages: list[Msg] = field(default_factory=list)
    sources: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """The JSON of messages that were whole, by `id(message)`."""
    repairs: list[Repair] = field(default_factory=list)
    broken: list[object] = field(default_factory=list)
    """What no message or block could be made of."""


def shape(context: Sequence[object], codec: Codec) -> Shaped:
    """Return the messages of a saved context.

    A message that cannot be read loses the blocks that cannot; one that cannot be read for another reason is dropped. A
    tool call without an id, a name or arguments stays without a name, so that its result can be found and both be
    dropped. Blocks that a message of its role may not have, as other programs write results into user messages, become
    an assistant's message in front of it.

    Args:
        context: The messages as plain JSON, oldest first.
        codec: Reads them.
    """
    shaped = Shaped()
    for item in context:
        message = _loaded(item, codec)
        if message is not None and isinstance(item, Mapping):
            shaped.messages.append(message)
            shaped.sources[id(message)] = item
        else:
            _salvage(item, codec, shaped)
    return shaped


def _salvage(item: object, codec: Codec, shaped: Shaped) -> None:
    """Take what can be read of a message that cannot."""
    if not isinstance(item, Mapping) or item.get("role") not in {"user", "assistant", "system"}:
        shaped.broken.append(item)
        _note(shaped, "broken_message", item, None, "is no message: it was dropped")
        return
    whole = {"name": item["role"], **item}
    own, foreign = _blocks(item, codec, shaped)
    if foreign:
        _note(shaped, "misplaced_block", item, foreign[0], f"is none of a message of the {item['role']}: it was moved")
        before = _loaded({"role": "assistant", "name": whole["name"], "content": foreign}, codec)
        shaped.messages += [] if before is None else [before]
    message = _loaded({**whole, "content": own}, codec)
    if message is None:
        shaped.broken.append(item)
        _note(shaped, "broken_message", item, None, "cannot be read: it was dropped")
        return
    if "name" not in item or not isinstance(item.get("content"), list):
        _note(shaped, "broken_message", item, None, "had no name or no list of blocks: it was given them")
    shaped.messages.append(message)


def _blocks(
    item: Mapping[str, Any], codec: Codec, shaped: Shaped
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return the blocks of a message that can be read, and of them those that a message of its role may not have."""
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    may_have = _ALLOWED.get(item["role"])
    own: list[Mapping[str, Any]] = []
    foreign: list[Mapping[str, Any]] = []
    for block in content if isinstance(content, list) else [content]:
        readable = _readable(block, codec)
        if readable is not block:
            shaped.broken.append(block)
        if readable is None:
            _note(shaped, "broken_block", item, block, "cannot be read: it was dropped")
        elif may_have is None or readable["type"] in may_have:
            own.append(readable)
        else:
            foreign.append(readable)
    return own, foreign


def _readable(block: object, codec: Codec) -> Mapping[str, Any] | None:
    """Return a block that can be read: the very same, or a call without a name; `None` where none can be."""
    if not isinstance(block, Mapping):
        return None
    if _loaded({"role": "assistant", "name": "any", "content": [block]}, codec) is not None:
        return block
    if block.get("type") != "tool_call":
        return None
    identifier = block.get("id")
    hollow = {"type": "tool_call", "id": identifier if isinstance(identifier, str) else "", "name": "", "input": ""}
    return hollow if _loaded({"role": "assistant", "name": "any", "content": [hollow]}, codec) is not None else None


def _loaded(item: object, codec: Codec) -> Msg | None:
    if not isinstance(item, Mapping):
        return None
    try:
        return codec.load(json.dumps(item))
    except (ValueError, RecursionError):
        return None


def _note(shaped: Shaped, kind: Kind, item: object, block: object, what: str) -> None:
    message_id = item.get("id") if isinstance(item, Mapping) else None
    block_id = block.get("id") if isinstance(block, Mapping) else None
    subject = f"message {message_id!r}" if message_id is not None else "a message without an id"
    if kind != "broken_message":
        block_type = block.get("type") if isinstance(block, Mapping) else None
        subject = f"a block of type {block_type!r} in {subject}"
    shaped.repairs.append(
        Repair(
            kind=kind,
            what=f"{subject} {what}",
            message_id=message_id if isinstance(message_id, str) else None,
            block_id=block_id if isinstance(block_id, str) else None,
        )
    )
