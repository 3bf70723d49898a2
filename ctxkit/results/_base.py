"""What all shorteners share: kinds of text, the ruler, what a shortener returns, and the pause between pieces."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

PIECE_CHARS: Final = 32_000
"""Most characters worked on before other tasks get a turn; about 1 ms of work, measured on regex and JSON."""


class Kind(StrEnum):
    """What a text is, as far as shortening goes."""

    JSON = "json"
    TABLE = "table"
    LOG = "log"
    DIFF = "diff"
    TEXT = "text"


class Ruler(Protocol):
    """Measures and cuts text by tokens; `ctxkit.tokens.Ruler` is one.

    The cost of `head` and `tail` grows with `tokens`, not with the text. They never end inside a grapheme.
    """

    async def count(self, text: str) -> int:
        """Return the tokens of a text."""
        ...

    async def head(self, text: str, tokens: int) -> str:
        """Return the longest prefix of at most `tokens` tokens."""
        ...

    async def tail(self, text: str, tokens: int) -> str:
        """Return the longest suffix of at most `tokens` tokens."""
        ...


@dataclass(frozen=True, kw_only=True)
class Shortened:
    """What is kept of a text; the truncation marker stands between `head` and `tail`."""

    head: str
    """What is kept before the gap; for JSON it is the whole of what is kept."""
    tail: str
    """What is kept after the gap, may be empty."""
    kind: Kind
    """The shortener that made it."""
    shown: str
    """In words what is kept, for example `"first 37 of 812 items"`."""
    items: tuple[int, int] | None = None
    """Items kept and items there were, where a list was cut."""
    offset: int | None = None
    """Characters of the original before the first one left out; `None` where `head` is no plain prefix."""


class Shortener(Protocol):
    """Shortens one kind of text."""

    @property
    def kind(self) -> Kind:
        """The kind that it shortens."""
        ...

    async def shorten(
        self, text: str, *, limit_tokens: int, head_ratio: float, ruler: Ruler, tool_name: str
    ) -> Shortened | None:
        """Keep what matters most of a text that is over its limit.

        Args:
            text: The whole text.
            limit_tokens: Tokens that `head` and `tail` may have together, at least 1.
            head_ratio: Share of what is kept that comes from the start, (0, 1].
            ruler: Measures and cuts.
            tool_name: The tool that gave the text.

        Returns:
            What is kept, or `None` where the text is not of this kind after all or too little would be left of it.
        """
        ...


class Pace:
    """Gives other tasks a turn after every `PIECE_CHARS` characters of work."""

    def __init__(self) -> None:
        self._done = 0

    async def after(self, chars: int) -> None:
        """Note that so many characters were worked on, and pause if it is time."""
        self._done += chars
        if self._done >= PIECE_CHARS:
            self._done = 0
            await asyncio.sleep(0)
