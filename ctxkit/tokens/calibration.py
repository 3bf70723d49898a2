"""Calibration: learns from reported usage how a model's tokenizer differs from the prior, a content class."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from ctxkit.tokens.classes import ContentClass
from ctxkit.tokens.weight import CLASSES, Weight

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE: Final = len(CLASSES)
_LOWEST: Final = tuple(
    0.0 if content_class in {ContentClass.THINKING, ContentClass.MEDIA} else 0.25 for content_class in CLASSES
)
"""Least ratio a class; some formatters and providers drop thinking and media, so these may vanish."""
_HIGHEST: Final = 4.0

# A Kalman filter on the ratios. What it assumes, as standard deviations:
_PRIOR_SD: Final = 0.4
"""Of a ratio before anything is known: cl100k against o200k, Claude's and DeepSeek's stays within 0.6 to 1.3."""
_DRIFT_SD: Final = 0.01
"""Of a ratio's change from one report to the next: a class is not all one thing (code in Go, then in SQL)."""
_NOISE_RATIO: Final = 0.02
"""Of a report against what exact ratios would give, as a share of the change: content within a class varies."""
_NOISE_TOKENS: Final = 8.0
"""Of a report, whatever its size: framing is known only roughly."""


class Calibration:
    """The ratio of true tokens to the prior's, a content class, 1.0 each until something is learnt.

    Each report gives one equation, `sum(ratio * tokens) = reported`, over several classes. The filter splits what does
    not fit among them by how much of each there was and how unsure its ratio still is, so that one report moves the
    ratios only as far as it can tell, and classes told apart once stay apart.
    """

    def __init__(self) -> None:
        self._ratios = [1.0] * _SIZE
        self._spread = [[_PRIOR_SD**2 if i == j else 0.0 for j in range(_SIZE)] for i in range(_SIZE)]

    def ratio(self, content_class: ContentClass) -> float:
        """Return the learnt ratio of one class, [0.25, 4]; from 0 for thinking and media."""
        return self._ratios[CLASSES.index(content_class)]

    def scale(self, weight: Weight) -> float:
        """Return the tokens that a weight has by the learnt ratios; negative for a negative weight."""
        return _dot(self._ratios, weight.tokens)

    def update(self, delta: Weight, tokens: float) -> None:
        """Learn from one report.

        Args:
            delta: What changed since the report before, by the prior; negative where content was removed.
            tokens: By how much the reported tokens changed.
        """
        x = delta.tokens
        size = sum(map(abs, x))
        if size < 1 or not math.isfinite(tokens):
            return
        for i in range(_SIZE):
            self._spread[i][i] = min(self._spread[i][i] + _DRIFT_SD**2, _PRIOR_SD**2)
        gains = [_dot(row, x) for row in self._spread]
        certainty = max(_dot(gains, x), 0.0) + (_NOISE_RATIO * size) ** 2 + _NOISE_TOKENS**2
        surprise = tokens - self.scale(delta)
        for i in range(_SIZE):
            moved = self._ratios[i] + gains[i] * surprise / certainty
            self._ratios[i] = min(max(moved, _LOWEST[i]), _HIGHEST)
            for j in range(_SIZE):
                self._spread[i][j] -= gains[i] * gains[j] / certainty

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON, about 150 bytes.

        Of what is unsure only each ratio's own variance is saved: without the rest the filter is a little more ready to
        learn again, and no saved numbers can make it run away.
        """
        return {
            "ratios": [_short(ratio) for ratio in self._ratios],
            "variances": [_short(self._spread[i][i]) for i in range(_SIZE)],
        }

    @classmethod
    def from_json(cls, value: object) -> Calibration:
        """Return the calibration that `to_json` wrote; a fresh one where the value is anything else."""
        calibration = cls()
        if not isinstance(value, dict):
            return calibration
        ratios, variances = value.get("ratios"), value.get("variances")
        if _is_numbers(ratios, _SIZE) and _is_numbers(variances, _SIZE):
            for i in range(_SIZE):
                calibration._ratios[i] = min(max(ratios[i], _LOWEST[i]), _HIGHEST)
                calibration._spread[i][i] = min(max(variances[i], 0.0), _PRIOR_SD**2)
        return calibration


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(map(operator.mul, left, right)))


def _short(value: float) -> float:
    """Round to five digits: the state is saved at every turn."""
    return float(f"{value:.5g}")


def _is_numbers(value: object, length: int) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and len(value) == length
        and all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in value)
    )
