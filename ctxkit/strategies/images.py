"""Keep the newest images only, as the host's `max_image_num` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxkit.port import Block, Piece
    from ctxkit.strategies._base import Situation


@dataclass(frozen=True)
class ImageStrategy:
    """Replaces the oldest images over the limit by notes."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each block that loses images."""
        held = [
            (place, sum(1 for _ in images_of(block)))
            for place, block in situation.view.blocks()
            if _may_hold(block) and place.message not in situation.pinned
        ]
        surplus = sum(count for _, count in held) - situation.settings.max_image_num
        edits = []
        for place, count in held:
            if surplus <= 0:
                break
            if count:
                edits.append(
                    Edit(
                        kind=EditKind.IMAGE,
                        message=place.message,
                        message_id=situation.view.messages[place.message].id,
                        start=place.block,
                        stop=place.block + 1,
                        tokens=round(situation.tokens[place.message][place.block]),
                        images=min(count, surplus),
                    )
                )
                surplus -= count
        return tuple(edits)


def _may_hold(block: Block) -> bool:
    """Whether a block may hold images, told at little cost."""
    return block.type in {"data", "hint", "tool_result"}


def is_image(block: Block | Piece) -> bool:
    """Whether a block is an image."""
    return block.type == "data" and block.source.media_type.startswith("image/")


def images_of(block: Block) -> Iterator[Piece]:
    """Yield the images of a block in order: itself, or those inside a tool result or a hint."""
    inside: Sequence[Piece] = ()
    if block.type == "data" and is_image(block):
        yield block
    elif block.type == "tool_result" and not isinstance(block.output, str):
        inside = block.output
    elif block.type == "hint" and not isinstance(block.hint, str):
        inside = block.hint
    yield from (piece for piece in inside if is_image(piece))
