"""What edits have cost so far: how much stays and is written anew, how long summaries are, how often something is recalled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from ctxkit.plan import Reason
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
    written_summed: float = 0.0
    """Tokens behind the first byte that an edit with a summary by a model changes; 0 where there was none."""
    written_cleared: float = 0.0
    """The same of edits for which no model was asked: they change less of what stands before the newest messages."""
    late_tokens: float = 0.0
    """Tokens by which edits came behind their trigger, since steps are large, or a summary was waited for."""
    answer_tokens: float = _ANSWER_TOKENS
    """Tokens that the model writes for a summary."""
    asked: float = 1.0
    """Share of the edits for which a model was asked, 0 to 1."""
    recalls: float = 0.0
    """Recalls between two edits."""
    recalls_since: int = 0
    """Recalls since the last edit."""
    steps_since: int = 0
    """Reasoning steps since the last edit with a summary by a model."""

    def after(self, receipt: Receipt) -> PastEdits:
        """Return what is expected after one more edit."""
        usage = receipt.usage
        answer = self.answer_tokens if usage is None else _mean(self.answer_tokens, usage.output_tokens)
        after, is_first = receipt.tokens_after, self.floor_tokens == 0
        is_asked = receipt.summary in {"warm", "structured", "staged"}
        written = max(1.0, after - receipt.stable_tokens)
        late = max(0, receipt.tokens_before - receipt.limit_tokens)
        summed, cleared = self.written_summed, self.written_cleared
        return PastEdits(
            floor_tokens=after if is_first else min(after, (self.floor_tokens + after) // 2),
            written_summed=_mean(summed or written, written) if is_asked else summed,
            written_cleared=cleared if is_asked else _mean(cleared or written, written),
            late_tokens=self.late_tokens if receipt.reason is not Reason.TRIGGER else _mean(self.late_tokens, late),
            answer_tokens=answer,
            asked=_mean(self.asked, float(is_asked)),
            recalls=self.recalls if is_first else _mean(self.recalls, self.recalls_since),
            steps_since=0 if is_asked else self.steps_since,
        )

    def after_step(self) -> PastEdits:
        """Return what is expected after one more reasoning step."""
        return replace(self, steps_since=self.steps_since + 1)

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
        behind = max(0.0, self.floor_tokens - prefix_tokens) if self.floor_tokens else keep_tokens

        def priced(how: Call, written: float) -> float:
            written = written or behind + self.answer_tokens
            kept = min(written, behind)
            return edit_cost(
                price,
                request_tokens=floor,
                kept_tokens=kept,
                inserted_tokens=written - kept,
                answer_tokens=self.answer_tokens,
                call=how,
                recalls=self.recalls,
                is_cold=is_cold,
            )

        summed, cleared = priced(call, self.written_summed), priced("none", self.written_cleared)
        # Where every second edit clears, summaries are made on their own account: see `summary_cost`.
        share = max(0.0, 2 * self.asked - 1)
        return share * summed + (1 - share) * cleared

    def summary_cost(self, price: Price, *, request_tokens: float, call: Call = "warm") -> float:
        """Return what an edit with a summary costs beyond one that only clears: the call, and what stands before the rest.

        Args:
            price: The prices.
            request_tokens: Tokens of the request that the summary is asked from.
            call: How it is asked for.
        """
        layer = self.answer_tokens
        if self.written_summed and self.written_cleared:
            layer = max(0.0, self.written_summed - self.written_cleared)
        return edit_cost(
            price,
            request_tokens=request_tokens,
            kept_tokens=0,
            inserted_tokens=layer,
            answer_tokens=self.answer_tokens,
            call=call,
        )

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
