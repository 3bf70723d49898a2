"""What a compression costs and saves, at a model's prices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from ctxkit.tokens import in_dollars, request_cost

if TYPE_CHECKING:
    from ctxkit.config import Price
    from ctxkit.plan import Receipt
    from ctxkit.port import Usage


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What a compression costs and saves, in units of one uncached input token.

    The requests are those of the next reasoning step, the answer left out, and all that stands in them now is taken to be
    in the provider's prompt cache.
    """

    summary: float
    """The calls for the summary."""
    next_without: float
    """The next request, if nothing were done."""
    next_with: float
    """The next request behind the compression, which writes to the cache what has moved."""
    saved_a_step: float
    """What each further step costs less."""
    steps_to_pay: int | None
    """After so many steps it has paid for itself; `None` where it never does."""
    dollars: float | None = None
    """What the compression costs more than the next request alone, in US dollars; `None` where these are not known."""
    source: str = ""
    """Where the prices come from."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def bill_of(
    price: Price | None, *, tokens_before: int, tokens_after: int, stable_tokens: int, usage: Usage | None
) -> Bill | None:
    """Return what a compression costs and saves.

    Args:
        price: The model's prices; `None` where they are not known.
        tokens_before: Tokens of the whole request before.
        tokens_after: Tokens of the whole request after.
        stable_tokens: Of these, tokens at the beginning that stay as they are.
        usage: What the calls for the summary cost; `None` where there are none.

    Returns:
        The bill; `None` where the prices are not known.
    """
    if price is None:
        return None
    summary = 0.0
    if usage is not None:
        summary = request_cost(
            price,
            tokens=usage.input_tokens,
            stable_tokens=usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
        )
    without = request_cost(price, tokens=tokens_before, stable_tokens=tokens_before)
    behind = request_cost(price, tokens=tokens_after, stable_tokens=stable_tokens)
    extra = summary + behind - without
    saved = price.cached * (tokens_before - tokens_after)
    return Bill(
        summary=summary,
        next_without=without,
        next_with=behind,
        saved_a_step=saved,
        steps_to_pay=None if saved <= 0 else 1 + ceil(max(0.0, extra) / saved),
        dollars=in_dollars(price, extra),
        source=price.source,
    )


def bill_of_receipt(price: Price | None, receipt: Receipt) -> Bill | None:
    """Return what a compression that was carried out costs and saves; `None` where the prices are not known."""
    return bill_of(
        price,
        tokens_before=receipt.tokens_before,
        tokens_after=receipt.tokens_after,
        stable_tokens=receipt.stable_tokens,
        usage=receipt.usage,
    )
