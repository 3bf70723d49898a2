"""Characters of messages: what a quick estimate of tokens goes by, and what people are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentscope.message import Msg

    from ctxkit.port import Block, Piece

_TEXTS: Final = {"text": "text", "thinking": "thinking", "hint": "hint", "tool_call": "input", "tool_result": "output"}
"""What a block's content is called, by its type; to ask for a field that is not there costs ten times as much."""


def block_chars(block: Block | Piece) -> int:
    """Return the characters of a block's text; pictures and files have none."""
    name = _TEXTS.get(block.type)
    return 0 if name is None else _chars(getattr(block, name))


def message_chars(messages: Iterable[Msg]) -> int:
    """Return the characters that stand in messages; reads no text, so that it costs little even where there are many."""
    return sum(block_chars(block) for message in messages for block in message.content)


class CharCounter:
    """Counts characters in place of tokens, so that a `Ruler` cuts by them."""

    name = "characters"

    def count(self, text: str) -> int:
        """Return the characters of a text."""
        return len(text)


CHARS: Final = CharCounter()
"""What a `Ruler` takes that measures in characters."""


def _chars(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(map(block_chars, content)) if isinstance(content, list | tuple) else 0
