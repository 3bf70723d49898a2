"""The ladder of edits: what is always done, what one rung adds to those before it, and what edits free together."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from ctxkit.plan import REFERENCE, Edit, EditKind
from ctxkit.strategies.compress import CompressStrategy
from ctxkit.strategies.history_limit import HistoryLimitStrategy
from ctxkit.strategies.images import ImageStrategy
from ctxkit.strategies.old_results import OldResultsStrategy
from ctxkit.strategies.shorten import SMALLEST_TOKENS, AdmissionStrategy, ShortenStrategy
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctxkit.strategies._base import Situation

LEAVING = frozenset({EditKind.COMPRESS, EditKind.DROP})
"""The kinds of edits after which nothing stands in the place of what they name."""
REPLACING = frozenset({EditKind.CLEAR, EditKind.SHRINK})
"""The kinds of edits that bring the text that stands there afterwards."""

_STAYING = {EditKind.IMAGE: 0, EditKind.SHRINK: 1, EditKind.TRUNCATE: 2, EditKind.CLEAR: 3}
"""Of two edits of one block the higher is done; what it leaves out waits for the next plan, if there is need of it then."""
_CHARS_PER_TOKEN = 4
_REFERENCE_TOKENS = 24
"""What the place of a stored original takes, about: it is known when it is stored."""


def plan_ladder(
    situation: Situation, *, keep_tokens: float | None, kind: EditKind = EditKind.COMPRESS
) -> tuple[Edit, ...]:
    """Return the edits that are always made, and those that take the oldest messages away.

    Args:
        situation: The context and what it weighs.
        keep_tokens: Tokens of the newest messages that stay; `None` takes no message away.
        kind: What happens to the messages that leave.

    Returns:
        Edits of which no two name the same block.
    """
    small = _one_each(
        (
            *ruled("images", ImageStrategy().plan_edits(situation)),
            *ruled("admission", AdmissionStrategy().plan_edits(situation)),
            *OldResultsStrategy().plan_edits(situation),
        )
    )
    hidden = HistoryLimitStrategy().plan_edits(situation)
    if keep_tokens is None:
        return stacked(small, hidden)
    large = CompressStrategy(keep_tokens=keep_tokens, kind=kind).plan_edits(lighter(situation, small))
    rule = "summarize" if kind is EditKind.COMPRESS else "truncate"
    sized_large = [replace(edit, tokens=round(_stood(situation, edit)), rule=rule) for edit in large]
    return stacked(stacked(small, sized_large), hidden)


def stacked(below: Sequence[Edit], above: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return edits with others on top of them; what one of them takes away, no other touches."""
    above = tuple(above)
    kept = tuple(_outside(below, leaving(above))) if below else ()
    return _one_each((*kept, *_outside(above, leaving(kept))))


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
    over = AdmissionStrategy().plan_edits(lighter(situation, edits))
    admitted = stacked(edits, ruled("admission", over))
    left = free_tokens - (freed_tokens(situation, admitted) - freed_tokens(situation, edits))
    done = leaving(edits) | {Place(edit.message, edit.start) for edit in edits if edit.kind is EditKind.CLEAR}
    more = ShortenStrategy(free_tokens=left, floor_tokens=floor_tokens, before=done)
    return _one_each((*admitted, *ruled("shorten", more.plan_edits(lighter(situation, admitted)))))


def lighter(situation: Situation, edits: Iterable[Edit]) -> Situation:
    """Return the situation as it would be after edits that shorten, with what they leave counted."""
    rows: dict[int, list[float]] = {}
    for edit in edits:
        if edit.kind is EditKind.TRUNCATE or edit.kind in REPLACING:
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
        elif edit.kind is not EditKind.IMAGE:
            freed += max(0.0, _stood(situation, edit) - edit.keep_tokens)
    return freed


def leaving(edits: Iterable[Edit]) -> frozenset[Place]:
    """Return the places of all blocks that edits take away."""
    return frozenset(
        Place(edit.message, number) for edit in edits if edit.kind in LEAVING for number in range(edit.start, edit.stop)
    )


def sized(edit: Edit) -> Edit:
    """Return the edit with `keep_tokens`, where it brings a text and does not say what that takes."""
    if edit.kind not in REPLACING or edit.keep_tokens or not edit.text:
        return edit
    tokens = ceil(len(edit.text) / _CHARS_PER_TOKEN) + _REFERENCE_TOKENS * (REFERENCE in edit.text)
    return replace(edit, keep_tokens=tokens)


def ruled(rule: str, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits with the name of the rule that wants them, where they do not have it."""
    return tuple(edit if edit.rule else replace(edit, rule=rule) for edit in edits)


def _stood(situation: Situation, edit: Edit) -> float:
    """Return the tokens of the blocks that an edit names."""
    return sum(situation.tokens[edit.message][edit.start : edit.stop])


def _outside(edits: Iterable[Edit], gone: frozenset[Place]) -> Iterator[Edit]:
    """Yield the edits, or what of them lies outside of what others take away."""
    if not gone:
        yield from edits
        return
    for edit in edits:
        stays = [number for number in range(edit.start, edit.stop) if (edit.message, number) not in gone]
        if len(stays) == edit.stop - edit.start:
            yield edit
        elif edit.kind in LEAVING:
            for number in stays:
                yield replace(edit, start=number, stop=number + 1, tokens=edit.tokens // (edit.stop - edit.start))


def _one_each(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits with one a block: where two name it, the one that goes further."""
    chosen: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        key = (edit.message, edit.start)
        there = chosen.get(key)
        if there is None or there.kind in LEAVING or edit.kind in LEAVING:
            chosen.setdefault(key, edit)
        elif edit.kind is there.kind is EditKind.TRUNCATE:
            less = min(edit, there, key=lambda one: one.keep_tokens)
            chosen[key] = replace(less, rule=edit.rule, tokens=max(edit.tokens, there.tokens))
        elif _STAYING[edit.kind] > _STAYING[there.kind]:
            chosen[key] = replace(edit, tokens=max(edit.tokens, there.tokens))
    return tuple(chosen.values())
