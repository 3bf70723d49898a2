"""Characters of messages: what a quick estimate of tokens goes by, and what people are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentscope.message import Msg

_TEXTS: Final = ("text", "thinking", "hint", "input", "output")
"""What a block's content is called, by its type."""


def block_chars(block: object) -> int:
    """Return the characters of a block's text; pictures and files have none."""
    return sum(_chars(getattr(block, name, None)) for name in _TEXTS)


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
