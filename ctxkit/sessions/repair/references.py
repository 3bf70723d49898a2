"""Finds references in a context that name nothing any more: the store was emptied, or is another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ctxkit.errors import RecordNotFoundError, StoreError
from ctxkit.sessions.repair.report import Repair

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.offload.store import Store
    from ctxkit.port import Piece

_QUOTED: Final = r"(?:'[^'\n]{1,1000}'|\"[^\"\n]{1,1000}\")"
_STORED: Final = re.compile(rf"stored in ({_QUOTED}(?:, {_QUOTED})*)")
"""How the stubs of a summary name where what left the context is."""
_PLACE: Final = re.compile(_QUOTED)


async def dangling_references(
    messages: Sequence[Msg], summary: Sequence[Piece] | str, store: Store
) -> Sequence[Repair]:
    """Return the references of shortened results, and of a summary's stubs, that the store does not know.

    Nothing is changed and no text invented: what they named cannot be had back, and whoever reads them is told so when
    asking for it. A store that cannot be read is no reason to call a reference dangling.

    Args:
        messages: The context.
        summary: The summary layer.
        store: The store that gave the references; of another one, all of them would be dangling.
    """
    found: list[Repair] = []
    seen: set[str] = set()
    for reference, message_id, subject in (*_of_results(messages), *_of_summary(summary)):
        if reference in seen:
            continue
        seen.add(reference)
        try:
            await store.get(reference, 0, 1)
        except RecordNotFoundError:
            what = f"{subject} names {reference!r}, and nothing is stored there any more"
            found.append(Repair(kind="dangling_reference", what=what, message_id=message_id, block_id=reference))
        except StoreError:
            continue
    return found


def _of_results(messages: Sequence[Msg]) -> Iterator[tuple[str, str | None, str]]:
    for message in messages:
        for block in message.content:
            mark = block.metadata.get("ctxkit") if block.type == "tool_result" else None
            reference = mark.get("reference") if isinstance(mark, dict) else None
            if isinstance(reference, str):
                yield reference, message.id, f"result {block.id!r} in message {message.id!r}"


def _of_summary(summary: Sequence[Piece] | str) -> Iterator[tuple[str, str | None, str]]:
    texts = [summary] if isinstance(summary, str) else [piece.text for piece in summary if piece.type == "text"]
    for text in texts:
        for places in _STORED.finditer(text):
            for place in _PLACE.finditer(places[1]):
                yield place[0][1:-1], None, "the summary"
