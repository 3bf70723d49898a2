"""The context as it was before a compression, from what stands there now and what was stored: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.offload.changes import block_name
from ctxkit.plan import EditKind
from ctxkit.strategies.ladder import LEAVING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.offload.changes import Part, Seen, StoredChange
    from ctxkit.port import Block, Codec
    from ctxkit.view import View


class CannotJoinError(Exception):
    """What was stored does not join what stands in the context now; the message says why."""


def rebuild(change: StoredChange, originals: Mapping[str, Msg], view: View, codec: Codec) -> list[Msg]:
    """Return the context of before a compression, followed by what came since.

    Args:
        change: What the compression changed.
        originals: The messages that were stored, by the key of their record.
        view: The context as it is now.
        codec: Makes the copies.

    Raises:
        CannotJoinError: The context has changed otherwise meanwhile.
    """
    parts: dict[int, list[Part]] = {}
    for part in change.parts:
        parts.setdefault(part.edit.message, []).append(part)
    last = max((index for index, seen in enumerate(change.messages) if seen.stays), default=-1)
    messages: list[Msg] = []
    at = 0
    for index, seen in enumerate(change.messages):
        own = sorted(parts.get(index, ()), key=lambda part: part.edit.start)
        left: Sequence[Block] = ()
        if seen.stays:
            left = _left(view, at, seen, own, may_grow=index == last)
        there = view.messages[at] if seen.stays else None
        at += seen.stays
        if own:
            messages.append(_whole(own, originals, there, left, codec))
        elif there is not None:
            messages.append(there)
    return _followed(messages, view.messages[at:], codec, is_last_gone=last < len(change.messages) - 1)


def _left(view: View, at: int, seen: Seen, parts: Sequence[Part], *, may_grow: bool) -> Sequence[Block]:
    """Return the blocks that stand in a message that stayed, or refuse where they are not those that were left."""
    if at >= len(view) or view.messages[at].id != seen.id:
        msg = f"message {seen.id!r} is not where the compression left it"
        raise CannotJoinError(msg)
    content = view.contents[at]
    gone = sum(part.edit.stop - part.edit.start for part in parts if part.edit.kind in LEAVING)
    grown = len(content) - (seen.blocks - gone)
    if grown < 0 or (grown > 0 and not may_grow):
        msg = f"message {seen.id!r} has {len(content)} blocks, and the compression left {seen.blocks - gone}"
        raise CannotJoinError(msg)
    return content


def _whole(
    parts: Sequence[Part], originals: Mapping[str, Msg], there: Msg | None, left: Sequence[Block], codec: Codec
) -> Msg:
    """Return a message with the blocks that it had, and those that came since."""
    blocks: list[Block] = []
    at = stood = 0
    for part in parts:
        edit = part.edit
        kept = edit.start - stood
        blocks.extend(left[at : at + kept])
        at, stood = at + kept, edit.stop
        original = originals[part.key].content
        if len(original) != edit.stop - edit.start:
            msg = f"of message {edit.message_id!r} other blocks are stored than left"
            raise CannotJoinError(msg)
        blocks.extend(original)
        if edit.kind not in LEAVING:
            now = left[at]
            # An image's note is another block than the image.
            if edit.kind is not EditKind.IMAGE and block_name(now.type, now.id) != part.blocks[0]:
                msg = f"a block of message {edit.message_id!r} was replaced since"
                raise CannotJoinError(msg)
            at += 1
    blocks.extend(left[at:])
    first = originals[parts[0].key]
    return (
        codec.with_content(first, blocks)
        if there is None
        else codec.with_mark_of(codec.with_content(there, blocks), first)
    )


def _followed(messages: list[Msg], since: Sequence[Msg], codec: Codec, *, is_last_gone: bool) -> list[Msg]:
    """Return messages and what came since, of which the first may go on with the last of them.

    The host appends to the running reply's message; where the compression had taken that away, it began it anew. Where
    nothing was left, an empty message holds what the summary cost: that goes to the last message, as it would have then.
    """
    if not (is_last_gone and since and messages):
        return [*messages, *since]
    last, new = messages[-1], since[0]
    if new.id == last.id:
        last = codec.with_mark_of(codec.with_content(new, [*last.content, *new.content]), last)
    elif not new.content and new.usage is not None:
        last = codec.with_usage_of(last, new)
    else:
        return [*messages, *since]
    return [*messages[:-1], last, *since[1:]]
