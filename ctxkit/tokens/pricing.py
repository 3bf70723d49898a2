"""Prices: what a model's tokens cost, and what a request costs at those prices."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from ctxkit.config import Price
from ctxkit.tokens.prices import FAMILIES, ON_REQUEST, SOURCE, UNPRICED


def price_of(model_key: str, override: Price | None = None, *, ask_for_cache: bool = False) -> Price | None:
    """Return what a model's tokens cost.

    Args:
        model_key: The model, as `ModelPort.key` names it, for example `"OpenAIChatModel:gpt-5"`.
        override: The user's own prices, which win over the table's.
        ask_for_cache: Whether providers that cache on request only are asked to; where not, they cache nothing.

    Returns:
        The prices; `None` where the model is not in the table.
    """
    if override is not None:
        return override
    price = _listed(model_key)
    if price is None or ask_for_cache or not re.search(ON_REQUEST, model_key, re.IGNORECASE):
        return price
    return replace(price, cached=1.0, written=1.0, source=f"{price.source}; its prompt cache is not asked for")


def request_cost(price: Price, *, tokens: float, stable_tokens: float, output_tokens: float = 0.0) -> float:
    """Return what one request costs, in uncached input tokens.

    Args:
        price: The prices.
        tokens: Tokens of the whole request.
        stable_tokens: Of these, tokens at its beginning that the prompt cache serves.
        output_tokens: Tokens of the answer.
    """
    stable = min(stable_tokens, tokens)
    return price.cached * stable + price.written * (tokens - stable) + price.output * output_tokens


def in_dollars(price: Price, units: float) -> float | None:
    """Return the US dollars of a cost in uncached input tokens; `None` where the price in dollars is not known."""
    return None if price.input_usd is None else units * price.input_usd / 1_000_000


@lru_cache(maxsize=64)
def _listed(model_key: str) -> Price | None:
    """Return a model's list prices; looked up at every step, so the answer is kept."""
    if re.search(UNPRICED, model_key, re.IGNORECASE):
        return None
    family = next((each for each in FAMILIES if re.search(each.pattern, model_key, re.IGNORECASE)), None)
    if family is None:
        return None
    return Price(
        cached=family.cached,
        written=family.written,
        output=family.output,
        input_usd=family.input_usd,
        cache_minutes=family.cache_minutes,
        source=SOURCE,
    )
