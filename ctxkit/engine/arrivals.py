"""What has come into a context since the last look, so that a step costs what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentscope.message import Msg

    from ctxkit.port import Block


class Arrivals:
    """Remembers how far a context has been looked at.

    The host appends to its list and to its last message, and makes a new list whenever it changes anything else; ctxkit's
    swaps do the same. So the same list object means that only its end can be new.
    """

    def __init__(self) -> None:
        self._context: Sequence[Msg] = ()
        self._messages = 0
        self._tail: Msg | None = None
        self._tail_blocks = 0

    def is_all_new(self, context: Sequence[Msg]) -> bool:
        """Whether nothing of this context is known to have been looked at."""
        return (
            context is not self._context
            or len(context) < self._messages
            or (self._messages > 0 and context[self._messages - 1] is not self._tail)
            or (self._tail is not None and len(self._tail.content) < self._tail_blocks)
        )

    def new(self, context: Sequence[Msg]) -> Iterator[tuple[Place, Block]]:
        """Yield the blocks that have not been looked at, in order."""
        first, skip = (
            (0, 0) if self.is_all_new(context) or not self._messages else (self._messages - 1, self._tail_blocks)
        )
        for index in range(first, len(context)):
            content = context[index].content
            for number in range(skip if index == first else 0, len(content)):
                yield Place(index, number), content[number]

    def looked(self, context: Sequence[Msg]) -> None:
        """Remember that all of this context has been looked at."""
        self._context = context
        self._messages = len(context)
        self._tail = context[-1] if context else None
        self._tail_blocks = len(self._tail.content) if self._tail is not None else 0
