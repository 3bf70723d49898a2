"""How fast a context grows: tokens that a reasoning step adds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Final

_STEPS: Final = 50
"""So many of the newest steps make up the mean, as in the simulation that the controller was tried in."""
_PRIOR_TOKENS: Final = 2000
"""Tokens a step of recorded coding agents, taken until steps have been seen."""
_PRIOR_SHARE: Final = 1 / 50
"""In small windows the prior is at most this share: agents that run in them are given less to read."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What the steps so far have added."""

    mean_tokens: float = 0.0
    """Mean of the newest steps, older ones forgotten by and by."""
    largest_tokens: float = 0.0
    """The largest step, forgotten by and by too, so that one exception does not count for ever."""
    steps: int = 0
    """Steps that were seen, at most as many as the mean remembers."""

    def after(self, tokens: int) -> Growth:
        """Return what is known after one more step.

        Args:
            tokens: Tokens that it added, at least 0.
        """
        steps = min(self.steps + 1, _STEPS)
        return Growth(
            mean_tokens=self.mean_tokens + (tokens - self.mean_tokens) / steps,
            largest_tokens=max(float(tokens), self.largest_tokens * (1 - 1 / _STEPS)),
            steps=steps,
        )

    def tokens(self, context_size: int) -> float:
        """Return the tokens that a step is expected to add, above 0, in a window of so many tokens."""
        if self.steps == 0:
            return max(1.0, min(_PRIOR_TOKENS, _PRIOR_SHARE * context_size))
        return max(1.0, self.mean_tokens)

    def largest(self, context_size: int) -> float:
        """Return the tokens that a step must be expected to add at most."""
        return max(self.largest_tokens, self.tokens(context_size))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Growth:
        """Return what `to_json` wrote; of anything else, that nothing is known."""
        if not isinstance(data, dict):
            return cls()
        values: dict[str, Any] = {field.name: data.get(field.name) for field in fields(cls)}
        if not all(isinstance(value, int | float) and isfinite(value) and value >= 0 for value in values.values()):
            return cls()
        return cls(**{**values, "steps": min(int(values["steps"]), _STEPS)})
