"""Admit one tool result to the context: defuse forged markers, and keep of an oversized result what tells most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctxkit.results import TRUNCATED, defuse_in_pieces, marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.port import Piece

_TRIES = 6
"""How often a result is cut again until the host's own count is satisfied, too."""
_MARGIN_RATIO = 0.95
"""Each further cut aims a little below the proportion, for the host counts differently."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A tool result as it enters the context."""

    pieces: Sequence[Piece]
    tokens_before: int
    tokens_after: int
    shortened: bool = False
    reference: str | None = None
    """Where the full result is stored."""
    problem: str | None = None
    """Why it could not be stored."""

    def mark(self) -> dict[str, object]:
        """Return what the result's metadata say of it."""
        if not self.shortened:
            return {"admitted": True}
        return {"admitted": True, "shortened": True, "reference": self.reference}


async def admit_result(kit: Kit, pieces: Sequence[Piece], *, call_id: str, tool: str, settings: Settings) -> Admitted:
    """Return what of a tool result enters the context; the full result is stored first.

    What stays is within ctxkit's limit in real tokens and within the host's own count of its limit, or the host would cut
    it again and drop the tail.

    Args:
        kit: The agent's kit.
        pieces: The result's output.
        call_id: Id of the tool call.
        tool: Name of the tool.
        settings: The limits.
    """
    window = kit.gauge.window(kit.port.model)
    limit = settings.result_limit(tool, window)
    verbatim = tool in settings.results.verbatim_tools
    clean = await _harmless(kit, pieces, verbatim=verbatim)
    tokens = await kit.gauge.pieces_tokens(clean, model_key=kit.port.model.key)
    host_limit = max(1, settings.tool_result_limit)
    is_exempt = tool in settings.results.exclude_tools
    if (tokens <= limit or is_exempt) and await kit.port.host_count(clean) <= host_limit:
        return Admitted(pieces=clean, tokens_before=round(tokens), tokens_after=round(tokens))
    original = kit.codec.with_output(kit.codec.result("", id=call_id, name=tool), pieces)
    stored = await kit.guard.store_result(kit.port.session_id, original)
    is_lost = stored.error is not None and stored.reference is None
    aim = min(limit, host_limit)
    costs = await _media_costs(kit, clean, share=aim / host_limit)
    shortener = replace(kit.shortener(settings, kit.port.model.key), media_tokens=lambda block: costs[block.id])
    kept: Sequence[Piece] = clean
    for _ in range(_TRIES):
        block = kit.codec.with_output(original, clean)
        cut = await shortener.shorten(block, limit_tokens=aim, reference=stored.reference, is_lost=is_lost)
        kept = cut.output  # type: ignore[union-attr,assignment]  # a tool result stays a tool result, its output a list
        counted = await kit.port.host_count(kept)
        if counted <= host_limit:
            break
        # The host may count more than there is: what is already below the aim would stay as it is.
        aim = min(aim, round(await kit.gauge.pieces_tokens(kept, model_key=kit.port.model.key)))
        aim = max(1, int(aim * host_limit / counted * _MARGIN_RATIO))
    else:
        kept = await _smallest(kit, stored.reference, host_limit, is_lost=is_lost)
    return Admitted(
        pieces=kept,
        tokens_before=round(tokens),
        tokens_after=round(await kit.gauge.pieces_tokens(kept, model_key=kit.port.model.key)),
        shortened=True,
        reference=stored.reference,
        problem=stored.error,
    )


async def _media_costs(kit: Kit, pieces: Sequence[Piece], *, share: float) -> dict[str, int]:
    """Return what each image or file takes of the limit, by its id: its tokens, or its part of the host's count.

    The host counts a picture flat, often many times its tokens: without this the text round it would pay for it.
    """
    key = kit.port.model.key
    return {
        piece.id: max(kit.gauge.media_tokens(piece, model_key=key), round(share * await kit.port.host_count([piece])))
        for piece in pieces
        if piece.type == "data"
    }


async def _smallest(kit: Kit, reference: str | None, host_limit: int, *, is_lost: bool) -> list[Piece]:
    """Return the most telling marker that is within the host's limit, or nothing where none is."""
    for text in (marker(reference, is_lost=is_lost), marker(None, is_lost=is_lost), TRUNCATED):
        pieces: list[Piece] = [kit.codec.text(text)]
        if await kit.port.host_count(pieces) <= host_limit:
            return pieces
    return []


async def _harmless(kit: Kit, pieces: Sequence[Piece], *, verbatim: bool) -> list[Piece]:
    """Return pieces in which nothing can be taken for ctxkit's or the host's own markers."""
    harmless: list[Piece] = []
    for piece in pieces:
        text = await defuse_in_pieces(piece.text, verbatim=verbatim) if piece.type == "text" else ""
        harmless.append(kit.codec.text(text) if piece.type == "text" and text != piece.text else piece)
    return harmless
