"""Up to where a window may be filled."""

from __future__ import annotations


def safe_limit(limit_tokens: int, largest_step_tokens: float) -> int:
    """Return the tokens up to which the next step still fits, whatever it adds; at least half the limit.

    Args:
        limit_tokens: Tokens that a request may have.
        largest_step_tokens: Most tokens that a step was seen to add.
    """
    return max(limit_tokens // 2, limit_tokens - int(largest_step_tokens))
