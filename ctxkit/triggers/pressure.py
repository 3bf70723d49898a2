"""How full a window is, and up to where it may be filled."""

from __future__ import annotations


def pressure(tokens: float, *, context_size: int, output_reserved: int) -> float:
    """Return how full the window is: tokens by what the answer leaves of it; above 1 where it is too full.

    Args:
        tokens: Tokens of the request, at least 0.
        context_size: Tokens of the window.
        output_reserved: Tokens that are kept for the answer; where they leave nothing, the pressure is infinite.
    """
    available = context_size - output_reserved
    return tokens / available if available > 0 else float("inf")


def safe_limit(limit_tokens: int, largest_step_tokens: float) -> int:
    """Return the tokens up to which the next step still fits, whatever it adds; at least half the limit.

    Args:
        limit_tokens: Tokens that a request may have.
        largest_step_tokens: Most tokens that a step was seen to add.
    """
    return max(limit_tokens // 2, limit_tokens - int(largest_step_tokens))
