"""The price of an edit, and how far a context may grow between two edits so that both together cost least."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ctxkit.config import Price

Call = Literal["warm", "cold", "none"]
"""How the summary is asked for: by extending the request that lies in the cache, by one of its own, or not at all."""

RECALL_TOKENS: Final = 1500
"""Tokens that a recall puts into the context; the simulation of the controller takes as many."""
_RECALL_CALL_TOKENS: Final = 60
"""Tokens of the call by which the agent asks for it."""


def edit_cost(
    price: Price,
    *,
    request_tokens: float,
    kept_tokens: float,
    inserted_tokens: float,
    answer_tokens: float = 0.0,
    call: Call = "warm",
    recalls: float = 0.0,
    is_cold: bool = False,
) -> float:
    """Return what one edit costs, in uncached input tokens, beside a step in which nothing is edited.

    It is `(w - r) * B + w * s + G + Q`, with the price `r` of a cached token and `w` of a written one.

    Args:
        price: The prices.
        request_tokens: Tokens of the request that the summary is asked from.
        kept_tokens: B, tokens behind the edit that stay and must be written to the cache anew.
        inserted_tokens: s, tokens that stand in place of what leaves.
        answer_tokens: Tokens of the model's answer to the summary call.
        call: How it is asked for; its cost is G.
        recalls: Recalls to be expected because of the edit; their cost is Q.
        is_cold: Nothing lies in the cache any more, so that all is written in any case and B costs nothing.
    """
    read = {"warm": price.cached, "cold": price.written, "none": 0.0}[call]
    asked = 0.0 if call == "none" else read * request_tokens + price.output * answer_tokens
    recall = price.cached * request_tokens + price.written * RECALL_TOKENS + price.output * _RECALL_CALL_TOKENS
    broken = 0.0 if is_cold else max(0.0, price.written - price.cached) * kept_tokens
    return broken + price.written * inserted_tokens + asked + recalls * recall


def headroom(cost: float, growth_tokens: float, price: Price, *, attention: float = 0.0) -> float:
    """Return the tokens that a context should grow by between two edits: `sqrt(2 * K * g / r)`.

    A step with n steps since the last edit reads `r * g * n` tokens more than one without, and an edit every n steps
    costs `K / n` a step; their sum is least at `n = sqrt(2 * K / (r * g))`.

    Args:
        cost: K, what an edit costs; see `edit_cost`.
        growth_tokens: g, tokens that a step adds.
        price: The prices; r is that of a cached token.
        attention: What a resident token costs a step beside its read, in uncached input tokens.

    Returns:
        Tokens; infinite where a token costs nothing to keep.
    """
    resident = price.cached + attention
    return sqrt(2 * cost * growth_tokens / resident) if resident > 0 else float("inf")
