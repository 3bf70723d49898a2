"""Admits a tool result that is a list of texts and media: one limit for all, order kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from ctxkit.results._base import Ruler
from ctxkit.results.admission import Limits, fits, shorten_text
from ctxkit.results.marker import defuse_in_pieces, marker
from ctxkit.results.sharing import share

if TYPE_CHECKING:
    from agentscope.message import DataBlock

    from ctxkit.port import Codec, Piece

_LEAST_TOKENS: Final = 150
"""Fewest tokens that are worth a shortened text: its marker alone takes about 70."""
_MEDIA_SHARE: Final = 0.5
"""Media keep at most this share of the limit where texts need the rest."""
_TRIES: Final = 4


async def shorten_pieces(
    pieces: Sequence["Piece"],
    *,
    tool_name: str,
    limits: Limits,
    ruler: Ruler,
    codec: "Codec",
    reference: str | None,
    media_tokens: Callable[["DataBlock"], int],
) -> list["Piece"]:
    """Return the pieces of a result as they stand in the context.

    Small texts stay whole, big ones are shortened alike; the last text comes first where room is short, for it holds
    exit codes. Media stay if they fit, else a line says what was there.

    Args:
        pieces: Text and data blocks of one result, in order; none is changed.
        tool_name: The tool that gave them.
        limits: How much may stand, for all pieces together.
        ruler: Measures and cuts.
        codec: Builds blocks.
        reference: Where the full result is stored, or `None` where it is not.
        media_tokens: Tokens of one data block.

    Returns:
        New list; together at most `limits.tokens` tokens, or the marker alone where not even that fits.
    """
    costs = {index: media_tokens(piece) for index, piece in enumerate(pieces) if piece.type == "data"}
    texts = {index: piece.text for index, piece in enumerate(pieces) if piece.type == "text"}
    needs = {index: await _need(text, limits.tokens, ruler) for index, text in texts.items()}
    kept_media = _kept_media(costs, sum(needs.values()), limits.tokens)
    for index in costs.keys() - kept_media:
        texts[index] = _media_note(cast("DataBlock", pieces[index]), costs[index])
        needs[index] = await _need(texts[index], limits.tokens, ruler)
    budget = limits.tokens - sum(costs[index] for index in kept_media)
    for _ in range(_TRIES):
        shown = {index: pieces[index] for index in kept_media}
        for index, tokens in _given(needs, budget).items():
            text = await shorten_text(
                texts[index],
                tool_name=tool_name,
                limits=replace(limits, tokens=tokens),
                ruler=ruler,
                reference=reference,
                is_whole=len(pieces) == 1,
            )
            shown[index] = _with_text(pieces[index], text, codec)
        whole = _with_gap(shown, len(pieces), codec=codec, limits=limits, reference=reference)
        over = await _count(whole, ruler, media_tokens) - limits.tokens
        if over <= 0:
            return whole
        budget -= over + max(1, budget // 32)
    return [codec.text(marker(reference, is_lost=limits.is_lost))]


async def defuse_pieces(pieces: Sequence["Piece"], *, codec: "Codec", verbatim: bool = False) -> list["Piece"]:
    """Return the pieces with forged markers made harmless; see `defuse`. A piece without any stays the same object."""
    return [
        _with_text(piece, await defuse_in_pieces(piece.text, verbatim=verbatim), codec)
        if piece.type == "text"
        else piece
        for piece in pieces
    ]


async def _need(text: str, most: int, ruler: Ruler) -> int:
    return await ruler.count(text) if await fits(text, most, ruler) else most + 1


def _kept_media(costs: Mapping[int, int], text_tokens: int, tokens: int) -> set[int]:
    """Choose the media that stay: the first ones that fit beside the texts, or in half of the limit."""
    room = max(int(tokens * _MEDIA_SHARE), tokens - text_tokens)
    kept: set[int] = set()
    for index, cost in costs.items():
        if cost <= room:
            kept.add(index)
            room -= cost
    return kept


def _media_note(block: "DataBlock", tokens: int) -> str:
    media_type = getattr(block.source, "media_type", None) or "media"
    named = f" {block.name!r}" if block.name else ""
    return f"[{media_type}{named} of about {tokens} tokens omitted for limited context]"


def _given(needs: Mapping[int, int], budget: int) -> dict[int, int]:
    """Divide the budget; where not every text can have a useful part, the last one has, then others from the ends on."""
    indices = sorted(needs)
    if sum(min(needs[index], _LEAST_TOKENS) for index in indices) > budget:
        chosen = [indices[-1]]
        room = budget - min(needs[indices[-1]], _LEAST_TOKENS) - _LEAST_TOKENS  # the latter for the marker
        for index in sorted(indices[:-1], key=lambda index: (min(index - indices[0], indices[-1] - index), -index)):
            if min(needs[index], _LEAST_TOKENS) <= room:
                room -= min(needs[index], _LEAST_TOKENS)
                chosen.append(index)
        indices = sorted(chosen)
    return dict(zip(indices, share([needs[index] for index in indices], budget), strict=True))


def _with_text(piece: "Piece", text: str, codec: "Codec") -> "Piece":
    if piece.type == "data":
        return codec.text(text)
    return piece if piece.text == text else cast("Piece", codec.with_text(piece, text))


def _with_gap(
    shown: Mapping[int, "Piece"], total: int, *, codec: "Codec", limits: Limits, reference: str | None
) -> list["Piece"]:
    """Return the shown pieces in order, and the marker where the first of the others stood."""
    whole = [shown[index] for index in sorted(shown)]
    missing = [index for index in range(total) if index not in shown]
    if missing:
        adds_words = limits.placement == "gap"
        said = f"{len(shown)} of {total} parts" if adds_words else ""
        note = marker(reference, shown=said, recall=limits.recall and adds_words, is_lost=limits.is_lost)
        whole.insert(missing[0] if adds_words else len(whole), codec.text(note))
    return whole


async def _count(pieces: Sequence["Piece"], ruler: Ruler, media_tokens: Callable[["DataBlock"], int]) -> int:
    total = 0
    for piece in pieces:
        total += media_tokens(piece) if piece.type == "data" else await ruler.count(piece.text)
    return total
