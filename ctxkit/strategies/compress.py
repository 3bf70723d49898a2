"""Move the oldest messages into the summary, up to a legal cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxkit.plan import Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.strategies._base import Situation
    from ctxkit.view import Place, View


@dataclass(frozen=True, kw_only=True)
class CompressStrategy:
    """Keeps the newest messages within a budget, and the newest user request wherever it stands.

    The budget is spent on messages alone: the host spends its reserve on system prompt and tools first, which in a small
    window leaves nothing for the messages.
    """

    keep_tokens: float
    """Tokens of the newest messages that stay; the last reasoning step stays even where it is larger."""
    kind: EditKind = EditKind.COMPRESS

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each message that leaves, whole or in part; empty ones leave with what they stand among."""
        view, tokens = situation.view, situation.tokens
        cut = view.cut_for(tokens, self.keep_tokens)
        edits = tuple(
            Edit(
                kind=self.kind,
                message=index,
                message_id=view.messages[index].id,
                start=0,
                stop=stop,
                tokens=round(sum(tokens[index][:stop])),
            )
            for index, stop in _before(view, cut, staying(situation))
        )
        return edits if any(sum(tokens[edit.message][: edit.stop]) > 0 for edit in edits) else ()


def staying(situation: Situation) -> frozenset[int]:
    """Return the messages that no cut takes away: the newest request, and what is pinned with what belongs to its calls."""
    view = situation.view
    return view.with_partners(situation.pinned) | frozenset(view.latest_request)


def newest_chunks(situation: Situation, chunks: int, *, most_tokens: float) -> float:
    """Return the tokens that are left when the oldest chunk of the messages leaves, once and again until few enough are.

    Each chunk ends where the context may be cut, so that after every round all calls have their results.

    Args:
        situation: The context.
        chunks: Chunks of about equal weight that the messages are parted into in each round, at least 2.
        most_tokens: Tokens that may be left.
    """
    view, tokens = situation.view, situation.tokens
    left = sum(map(sum, tokens))
    while True:
        cut = view.cut_for(tokens, left - left / chunks)
        before = left
        left = sum(tokens[cut.message][cut.block :]) + sum(map(sum, tokens[cut.message + 1 :])) if view.cuts else 0.0
        if left <= most_tokens or left >= before:
            return left


def newest_messages(situation: Situation, number: int) -> float:
    """Return the tokens of at least so many of the newest messages, back to where the context may be cut."""
    view, counts = situation.view, situation.view.counts
    cuts = set(view.cuts)
    seen, tokens = 0, 0.0
    for index in range(len(view) - 1, -1, -1):
        for block in range(len(counts[index]) - 1, -1, -1):
            seen += counts[index][block]
            tokens += situation.tokens[index][block]
            if seen >= number and (index, block) in cuts:
                return tokens
    return tokens


def _before(view: View, cut: Place, stay: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield each message that has blocks before a cut and may leave, with the number of these blocks."""
    for index in range(cut.message):
        if index not in stay:
            yield index, len(view.contents[index])
    if cut.block > 0 and cut.message not in stay:  # in an assistant's message, never in the request
        yield cut.message, cut.block
