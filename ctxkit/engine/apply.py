"""Apply edits to the messages of a view: pure, and the view's own messages are never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.strategies.ladder import LEAVING
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.plan import Edit
    from ctxkit.port import Block, Codec
    from ctxkit.view import View


def apply_edits(view: View, edits: Sequence[Edit], replacements: Mapping[Place, Block], codec: Codec) -> list[Msg]:
    """Return the messages that a view's context would have after edits.

    Args:
        view: The context that the edits were made from.
        edits: What to do.
        replacements: What stands in place of each block that was shortened.
        codec: Makes the copies.

    Returns:
        A new list; messages that no edit touches are the very same objects.
    """
    gone: dict[int, set[int]] = {}
    for edit in edits:
        if edit.kind in LEAVING:
            gone.setdefault(edit.message, set()).update(range(edit.start, edit.stop))
    shortened = {place.message for place in replacements}
    touched = gone.keys() | shortened  # empty messages, too
    messages = []
    for index, message in enumerate(view.messages):
        if index not in touched:
            messages.append(message)
            continue
        without = gone.get(index, ())
        content = [
            replacements.get(Place(index, number), block) if index in shortened else block
            for number, block in enumerate(view.contents[index])
            if number not in without
        ]
        # The host appends to the running reply's message: that one stays, even empty.
        if content or (view.is_running_last and index == len(view) - 1):
            mark = {"shortened": True} if index in shortened else None
            messages.append(codec.with_content(message, content, mark=mark))
    return messages


def taken_away(view: View, edits: Sequence[Edit], codec: Codec) -> list[Msg]:
    """Return the messages, whole or in part, that edits take away, as they are to be stored; of empty ones nothing is."""
    messages = []
    for edit in edits:
        if edit.kind in LEAVING and edit.stop > edit.start:
            message = view.messages[edit.message]
            whole = (edit.start, edit.stop) == (0, len(view.contents[edit.message]))
            part = view.contents[edit.message][edit.start : edit.stop]
            messages.append(
                message if whole and len(message.content) == len(part) else codec.with_content(message, part)
            )
    return messages
