"""What edits have cost so far: how much stays and is written anew, how long summaries are, how often something is recalled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from ctxkit.triggers.headroom import edit_cost

if TYPE_CHECKING:
    from ctxkit.config import Price
    from ctxkit.plan import Receipt
    from ctxkit.triggers.headroom import Call

_ANSWER_TOKENS: Final = 1500
"""Tokens of a summary, taken until one has been made; about what models write for AgentScope's five fields."""
_FORGET: Final = 0.3
"""Weight of the newest edit in what is expected of the next."""


@dataclass(frozen=True, kw_only=True)
class PastEdits:
    """What is expected of the next edit, from those before."""

    floor_tokens: int = 0
    """Tokens of the request right after an edit; 0 where there was none.

    Where one leaves more than those before it, it counts in part only: a large result among the newest messages goes with
    the next edit, and must not delay it.
    """
    stable_tokens: int = 0
    """Of these, tokens at its beginning that the edit left as they were."""
    answer_tokens: float = _ANSWER_TOKENS
    """Tokens that the model writes for a summary."""
    asked: float = 1.0
    """Share of the edits for which a model was asked, 0 to 1."""
    recalls: float = 0.0
    """Recalls between two edits."""
    recalls_since: int = 0
    """Recalls since the last edit."""

    def after(self, receipt: Receipt) -> PastEdits:
        """Return what is expected after one more edit."""
        usage = receipt.usage
        answer = self.answer_tokens if usage is None else _mean(self.answer_tokens, usage.output_tokens)
        after, is_first = receipt.tokens_after, self.floor_tokens == 0
        return PastEdits(
            floor_tokens=after if is_first else min(after, (self.floor_tokens + after) // 2),
            stable_tokens=min(receipt.stable_tokens, after),
            answer_tokens=answer,
            asked=_mean(self.asked, float(receipt.summary in {"warm", "structured", "staged"})),
            recalls=self.recalls if is_first else _mean(self.recalls, self.recalls_since),
        )

    def after_recall(self) -> PastEdits:
        """Return what is expected after something that had left was read back."""
        return self if self.floor_tokens == 0 else replace(self, recalls_since=self.recalls_since + 1)

    def floor(self, *, prefix_tokens: float, keep_tokens: float) -> int:
        """Return the tokens that an edit leaves: as those before did, or what is to be expected of the first.

        Args:
            prefix_tokens: Tokens before the messages: system prompt, tools, summary.
            keep_tokens: Tokens that the newest messages keep.
        """
        return self.floor_tokens or round(prefix_tokens + self.answer_tokens + keep_tokens)

    def cost(
        self, price: Price, *, prefix_tokens: float, keep_tokens: float, call: Call = "warm", is_cold: bool = False
    ) -> float:
        """Return what the next edit is expected to cost, in uncached input tokens.

        The summary call is priced on what is there right after an edit, not on what has grown since: each token that
        grows is read by one such call, however often there is one, so that this part does not say when to have it.

        Args:
            price: The prices.
            prefix_tokens: Tokens before the messages: system prompt, tools, summary.
            keep_tokens: Tokens that the newest messages keep.
            call: How a summary is asked for.
            is_cold: Nothing lies in the cache any more.
        """
        floor = self.floor(prefix_tokens=prefix_tokens, keep_tokens=keep_tokens)
        kept = max(0.0, self.floor_tokens - prefix_tokens) if self.floor_tokens else keep_tokens
        inserted = self.answer_tokens
        if self.stable_tokens:
            inserted = max(0.0, self.floor_tokens - self.stable_tokens - kept)

        def priced(how: Call) -> float:
            return edit_cost(
                price,
                request_tokens=floor,
                kept_tokens=kept,
                inserted_tokens=inserted,
                answer_tokens=self.answer_tokens,
                call=how,
                recalls=self.recalls,
                is_cold=is_cold,
            )

        return self.asked * priced(call) + (1 - self.asked) * priced("none")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> PastEdits:
        """Return what `to_json` wrote; of anything else, that nothing is known."""
        if not isinstance(data, dict):
            return cls()
        values: dict[str, Any] = {each.name: data.get(each.name) for each in fields(cls)}
        sane = all(isinstance(value, int | float) and isfinite(value) and value >= 0 for value in values.values())
        return cls(**values) if sane else cls()


def _mean(before: float, newest: float) -> float:
    return before + _FORGET * (newest - before)
