"""How long an agent's steps and summaries take: when a summary must be begun so that it is there in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Any, Final

_PRIOR_SUMMARY_S: Final = 20.0
"""Taken until a summary has been timed: 2000 tokens of an answer at 100 tokens a second; so the first is begun early."""
_PRIOR_STEP_S: Final = 5.0
"""Taken until a step has been timed: a short answer and a quick tool."""
_WEIGHT: Final = 0.3
"""Of the newest time in the mean: about the last six count."""
_LEAST_S: Final = 1e-3
"""Scripted models answer at once; without this a summary would seem to take endless steps."""
_SHARE: Final = 0.6
"""No summary is begun before this share of the way from one compression to the next: it would stand for too little."""
_SPARE_STEPS: Final = 1
"""A summary is begun so many steps earlier than the mean needs, for half of them take longer."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Mean times of one agent, the newest counting most."""

    summary_s: float | None = None
    """Seconds from the decision until a summary is stored; `None` before one has been timed."""
    step_s: float | None = None
    """Seconds from one reasoning step of a reply to the next; `None` before one has been timed."""

    def after_summary(self, seconds: float) -> Pace:
        """Return what is known after one more summary."""
        return replace(self, summary_s=_mean(self.summary_s, seconds))

    def after_step(self, seconds: float) -> Pace:
        """Return what is known after one more step."""
        return replace(self, step_s=_mean(self.step_s, seconds))

    @property
    def is_measured(self) -> bool:
        """Whether both have been timed."""
        return self.summary_s is not None and self.step_s is not None

    @property
    def steps(self) -> int:
        """Reasoning steps for which a summary takes, with one to spare."""
        summary = _PRIOR_SUMMARY_S if self.summary_s is None else self.summary_s
        step = _PRIOR_STEP_S if self.step_s is None else self.step_s
        return ceil(summary / max(step, _LEAST_S)) + _SPARE_STEPS

    def start_tokens(self, trigger_tokens: float, *, floor_tokens: float, growth_tokens: float) -> float:
        """Return the tokens from which on a summary is prepared: `trigger - g * ceil(L / tau)`, but never too early.

        Args:
            trigger_tokens: Tokens at which a compression is due.
            floor_tokens: Tokens that the last one left, or that none can free.
            growth_tokens: g, tokens that a step adds.
        """
        earliest = floor_tokens + _SHARE * (trigger_tokens - floor_tokens)
        return max(earliest, trigger_tokens - growth_tokens * self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {name: round(value, 4) for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: object) -> Pace:
        """Return what `to_json` wrote; of anything else, that nothing is known."""
        if not isinstance(data, dict):
            return cls()
        times = {name: data.get(name) for name in ("summary_s", "step_s")}
        is_time = all(
            value is None or (isinstance(value, int | float) and isfinite(value) and value >= 0)
            for value in times.values()
        )
        return cls(**times) if is_time else cls()


def _mean(before: float | None, seconds: float) -> float:
    seconds = max(0.0, seconds)
    return seconds if before is None else before + _WEIGHT * (seconds - before)
