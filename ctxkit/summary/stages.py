"""A history that no single call can take, cut into parts that one can: exchanges whole, and nothing left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxkit.ledger import Count

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block, Piece

_LEAST_CHARS: Final = 200
"""A text is not cut into smaller pieces than this."""

_SAFETY: Final = 0.95
_URL_CHARS: Final = 300
"""A longer address is the data itself."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What must not be parted: one text, or a tool call with its result and whatever stands between."""

    text: str
    requests: tuple[str, ...] = ()
    """What of it a user said."""
    replies: tuple[str, ...] = ()
    """What of it the assistant said."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What one call summarises."""

    text: str
    requests: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()

    def halves(self) -> "tuple[Chunk, Chunk]":
        """Return the chunk in two parts, cut at a line end where there is one near the middle."""
        middle = len(self.text) // 2
        line = self.text.find("\n", middle, middle + middle // 2)
        cut = line + 1 if line >= 0 else middle
        return (
            Chunk(text=self.text[:cut], requests=self.requests, replies=()),
            Chunk(text=self.text[cut:], requests=(), replies=self.replies),
        )


def units_of(messages: "Sequence[Msg]", code: str = "") -> Iterator[Unit]:
    """Yield the messages as text, unit by unit, oldest first.

    Args:
        messages: What to summarise.
        code: Stands in the lines that say who speaks, so that a tool's result cannot imitate a user.
    """
    label = f"{code} " if code else ""
    answered = {b.id for m in messages for b in m.content if b.type == "tool_result"}
    open_calls: set[str] = set()
    texts: list[str] = []
    requests: list[str] = []
    replies: list[str] = []
    for message in messages:
        for block in message.content:
            texts.append(f"[{label}{_block_text(message, block)}")
            if block.type == "text":
                (requests if message.role == "user" else replies).append(block.text)
            elif block.type == "tool_call" and block.id in answered:
                open_calls.add(block.id)
            elif block.type == "tool_result":
                open_calls.discard(block.id)
            if not open_calls:
                yield Unit(text="\n".join(texts), requests=tuple(requests), replies=tuple(replies))
                texts, requests, replies = [], [], []
    if texts:
        yield Unit(text="\n".join(texts), requests=tuple(requests), replies=tuple(replies))


async def chunks_of(units: "Sequence[Unit]", *, limit_tokens: int, count: Count) -> list[Chunk]:
    """Return the units gathered into chunks of at most `limit_tokens` tokens.

    A unit that is too large by itself goes on over several chunks; joined, the chunks have every character of the units.
    """
    chunks: list[Chunk] = []
    gathered: list[Unit] = []
    taken = 0
    for unit in units:
        tokens = await count(unit.text) + 1
        if gathered and taken + tokens > limit_tokens:
            chunks.append(_chunk_of(gathered))
            gathered, taken = [], 0
        if tokens > limit_tokens:
            chunks.extend(await _split(unit, tokens, limit_tokens=limit_tokens, count=count))
        else:
            gathered.append(unit)
            taken += tokens
    if gathered:
        chunks.append(_chunk_of(gathered))
    return chunks


def _chunk_of(units: Sequence[Unit]) -> Chunk:
    return Chunk(
        text="\n".join(unit.text for unit in units),
        requests=tuple(request for unit in units for request in unit.requests),
        replies=tuple(reply for unit in units for reply in unit.replies),
    )


async def _split(unit: Unit, tokens: int, *, limit_tokens: int, count: Count) -> list[Chunk]:
    """Cut a unit into pieces that fit, by the density of the text round each cut."""
    pieces: list[str] = []
    text, start = unit.text, 0
    guess = max(_LEAST_CHARS, int(len(text) * limit_tokens / tokens * _SAFETY))
    while start < len(text):
        size = guess
        while size > _LEAST_CHARS and await count(text[start : start + size]) > limit_tokens:
            size = max(_LEAST_CHARS, size * 3 // 4)
        line = text.rfind("\n", start + size // 2, start + size) + 1
        stop = line if line > start and start + size < len(text) else start + size
        pieces.append(text[start:stop])
        start = stop
    last = len(pieces) - 1
    return [
        Chunk(text=piece, requests=() if n else unit.requests, replies=unit.replies if n == last else ())
        for n, piece in enumerate(pieces)
    ]


def _block_text(message: "Msg", block: "Block") -> str:
    """Return a block as a person would write it into a transcript, from behind the opening bracket on."""
    who = message.role if message.name in {"", message.role} else f"{message.role} {message.name}"
    if block.type == "text":
        return f"{who}] {block.text}"
    if block.type == "thinking":
        return f"{who} thinks] {block.thinking}"
    if block.type == "hint":
        return f"hint] {_pieces_text(block.hint)}"
    if block.type == "tool_call":
        return f"{who} calls {block.name}, {block.id}] {block.input}"
    if block.type == "tool_result":
        state = getattr(block.state, "value", block.state)
        return f"tool {block.name} answers {block.id}, {state}] {_pieces_text(block.output)}"
    return f"{who}] {_pieces_text([block])}"


def _pieces_text(pieces: "str | Sequence[Piece]") -> str:
    if isinstance(pieces, str):
        return pieces
    return "\n".join(piece.text if piece.type == "text" else _media_text(piece) for piece in pieces)


def _media_text(piece: "Piece") -> str:
    source = getattr(piece, "source", None)
    kind = getattr(source, "media_type", None) or "media"
    name = getattr(piece, "name", None)
    where = str(getattr(source, "url", None) or "")[:_URL_CHARS]
    return "[" + ", ".join(str(part) for part in (kind, name, where) if part) + "]"
