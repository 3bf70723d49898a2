"""Shorten the largest blocks to head and tail: those over their limit, or as many as must be freed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxkit.port import Block
    from ctxkit.strategies._base import Situation

SMALLEST_TOKENS = 48
"""A block is never cut below this: marker, reminder and reference take about as much."""


@dataclass(frozen=True)
class AdmissionStrategy:
    """Shortens what entered the context over its limit: results, pastes, hints and arguments of finished calls.

    What comes through `on_acting` is shortened before it enters. This catches the rest: user messages, background and
    external results, and transcripts that another program wrote.
    """

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each block over its limit."""
        edits = []
        request_level = _request_level(situation)
        settings, window = situation.settings, situation.context_size
        limits = (settings.paste_limit(window), settings.result_limit("", window), request_level)
        least = min(*limits, *settings.results.per_tool_limits.values())
        for index, content in enumerate(situation.view.contents):
            if index in situation.pinned:
                continue  # word for word, however long
            for number, block in enumerate(content):
                if situation.tokens[index][number] <= least:
                    continue  # most of them
                place = Place(index, number)
                is_request = _is_request(situation, place)
                limit = request_level if is_request else self._limit(situation, block)
                if situation.tokens[index][number] > limit and (is_request or can_shorten(situation, place)):
                    edits.append(_edit(situation, place, keep_tokens=limit))
        return tuple(edits)

    def _limit(self, situation: Situation, block: Block) -> int:
        settings, window = situation.settings, situation.context_size
        if block.type != "tool_result":
            return settings.paste_limit(window)
        if block.name in settings.results.exclude_tools or is_admitted(block):
            return window
        return settings.result_limit(block.name, window)


@dataclass(frozen=True, kw_only=True)
class ShortenStrategy:
    """Frees tokens by lowering the largest blocks to one common level, so that the fewest and largest lose."""

    free_tokens: float
    """Tokens to free."""
    floor_tokens: int = SMALLEST_TOKENS
    """No block is cut below this."""
    before: frozenset[Place] = frozenset()
    """Blocks that another edit of the same plan takes away."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that free what is wanted, or as much of it as can be freed."""
        if self.free_tokens <= 0:
            return ()
        places = [
            (tokens, Place(index, number))
            for index, row in enumerate(situation.tokens)
            for number, tokens in enumerate(row)
            if tokens > self.floor_tokens
            and (index, number) not in self.before
            and can_shorten(situation, Place(index, number))
        ]
        level = common_level([tokens for tokens, _ in places], self.free_tokens, self.floor_tokens)
        return tuple(_edit(situation, place, keep_tokens=level) for tokens, place in places if tokens > level)


def common_level(sizes: Sequence[float], free: float, floor: int) -> int:
    """Return the highest level to which all larger sizes must be lowered to free an amount.

    Args:
        sizes: Tokens of each block.
        free: Tokens to free together.
        floor: The lowest level.
    """
    total = 0.0
    ordered = sorted(sizes, reverse=True)
    for count, size in enumerate(ordered, start=1):
        total += size
        following = ordered[count] if count < len(ordered) else 0.0
        level = (total - free) / count
        if level >= following:
            return max(floor, int(level))
    return floor


def can_shorten(situation: Situation, place: Place) -> bool:
    """Whether a block may be shortened in order to free tokens.

    Thinking is signed, an unfinished call is about to run with its arguments, and what is pinned and the newest user
    request stay verbatim: `AdmissionStrategy` alone shortens the request, and only to its budget.
    """
    if place.message in situation.pinned:
        return False
    kind = situation.view.contents[place.message][place.block].type
    if kind == "tool_call":
        return not situation.view.is_unfinished(place)
    return kind not in {"thinking", "data"} and not _is_request(situation, place)


def is_admitted(block: Block) -> bool:
    """Whether ctxkit has looked at a tool result before it entered the context."""
    mark = block.metadata.get("ctxkit") if block.type == "tool_result" else None
    return isinstance(mark, dict) and "admitted" in mark


def _is_request(situation: Situation, place: Place) -> bool:
    """Whether a block is a text of the newest user request."""
    view = situation.view
    return place.message in view.latest_request and view.contents[place.message][place.block].type == "text"


def _request_level(situation: Situation) -> float:
    """Return the tokens that one text of the newest request may have; no limit while all of it is within its budget."""
    sizes = [
        tokens
        for index in situation.view.latest_request
        for number, tokens in enumerate(situation.tokens[index])
        if _is_request(situation, Place(index, number))
    ]
    over = sum(sizes) - situation.settings.paste_limit(situation.context_size)
    return common_level(sizes, over, SMALLEST_TOKENS) if over > 0 else math.inf


def _edit(situation: Situation, place: Place, *, keep_tokens: float) -> Edit:
    return Edit(
        kind=EditKind.TRUNCATE,
        message=place.message,
        message_id=situation.view.messages[place.message].id,
        start=place.block,
        stop=place.block + 1,
        tokens=round(situation.tokens[place.message][place.block]),
        keep_tokens=int(keep_tokens),
    )
