"""The ladder of edits, cheapest first: images, admission, compression, and shortening until it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind
from ctxkit.strategies.compress import CompressStrategy
from ctxkit.strategies.images import ImageStrategy
from ctxkit.strategies.shorten import SMALLEST_TOKENS, AdmissionStrategy, ShortenStrategy
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxkit.strategies._base import Situation

LEAVING = frozenset({EditKind.COMPRESS, EditKind.DROP})
"""The kinds of edits after which nothing stands in the place of what they name."""


def plan_ladder(
    situation: Situation, *, keep_tokens: float | None, kind: EditKind = EditKind.COMPRESS
) -> tuple[Edit, ...]:
    """Return the edits of one pass.

    Args:
        situation: The context and what it weighs.
        keep_tokens: Tokens of the newest messages that stay; `None` takes no message away.
        kind: What happens to the messages that leave.

    Returns:
        Edits of which no two name the same block.
    """
    small = (*ImageStrategy().plan_edits(situation), *AdmissionStrategy().plan_edits(situation))
    if keep_tokens is None:
        return _one_each(small)
    large = CompressStrategy(keep_tokens=keep_tokens, kind=kind).plan_edits(lighter(situation, small))
    if not small:
        return large
    large = tuple(replace(edit, tokens=round(_stood(situation, edit))) for edit in large)
    gone = leaving(large)
    return _one_each((*(edit for edit in small if Place(edit.message, edit.start) not in gone), *large))


def shorten_more(
    situation: Situation, edits: Sequence[Edit], *, free_tokens: float, floor_tokens: int = SMALLEST_TOKENS
) -> tuple[Edit, ...]:
    """Return the edits with more shortening among what stays, so that further tokens are freed.

    Args:
        situation: The context that the edits were made from.
        edits: The edits so far.
        free_tokens: Tokens to free beyond what the edits free already.
        floor_tokens: No block is cut below this.
    """
    if free_tokens <= 0:
        return tuple(edits)
    gone = leaving(edits)
    over = AdmissionStrategy().plan_edits(lighter(situation, edits))
    admitted = _one_each((*edits, *(edit for edit in over if Place(edit.message, edit.start) not in gone)))
    left = free_tokens - (freed_tokens(situation, admitted) - freed_tokens(situation, edits))
    more = ShortenStrategy(free_tokens=left, floor_tokens=floor_tokens, before=gone)
    return _one_each((*admitted, *more.plan_edits(lighter(situation, admitted))))


def lighter(situation: Situation, edits: Iterable[Edit]) -> Situation:
    """Return the situation as it would be after edits that shorten, with what they leave counted."""
    rows: dict[int, list[float]] = {}
    for edit in edits:
        if edit.kind is EditKind.TRUNCATE:
            row = rows.setdefault(edit.message, list(situation.tokens[edit.message]))
            row[edit.start] = min(row[edit.start], edit.keep_tokens)
    if not rows:
        return situation
    return replace(situation, tokens=[rows.get(index, row) for index, row in enumerate(situation.tokens)])


def freed_tokens(situation: Situation, edits: Iterable[Edit]) -> float:
    """Return the tokens that edits free; what an image's note frees is not known before it is made."""
    freed = 0.0
    for edit in edits:
        if edit.kind in LEAVING:
            freed += _stood(situation, edit)
        elif edit.kind is EditKind.TRUNCATE:
            freed += max(0.0, _stood(situation, edit) - edit.keep_tokens)
    return freed


def leaving(edits: Iterable[Edit]) -> frozenset[Place]:
    """Return the places of all blocks that edits take away."""
    return frozenset(
        Place(edit.message, number) for edit in edits if edit.kind in LEAVING for number in range(edit.start, edit.stop)
    )


def _stood(situation: Situation, edit: Edit) -> float:
    """Return the tokens of the blocks that an edit names."""
    return sum(situation.tokens[edit.message][edit.start : edit.stop])


def _one_each(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits with one a block: where two name it, the one that keeps less; images wait for the next pass."""
    chosen: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        key = (edit.message, edit.start)
        there = chosen.get(key)
        if there is None:
            chosen[key] = edit
        elif edit.kind is EditKind.TRUNCATE:
            keep = min(edit.keep_tokens, there.keep_tokens) if there.kind is EditKind.TRUNCATE else edit.keep_tokens
            chosen[key] = replace(edit, keep_tokens=keep, tokens=max(edit.tokens, there.tokens))
    return tuple(chosen.values())
