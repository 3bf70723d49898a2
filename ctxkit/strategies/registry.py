"""The strategies that a ladder names, and the name of one of your own."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from ctxkit.strategies.clear_arguments import ClearArgumentsStrategy
from ctxkit.strategies.clear_results import ClearResultsStrategy
from ctxkit.strategies.clear_thinking import ClearThinkingStrategy
from ctxkit.strategies.deduplicate import DeduplicateStrategy
from ctxkit.strategies.drop_turns import DropTurnsStrategy
from ctxkit.strategies.shrink import ShrinkStrategy
from ctxkit.strategies.turn_texts import TurnTextsStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctxkit.config import Settings
    from ctxkit.strategies._base import Strategy

STRATEGIES: Final[Mapping[str, Callable[[Settings], Strategy]]] = MappingProxyType(
    {
        "deduplicate": lambda _: DeduplicateStrategy(),
        "shrink": lambda _: ShrinkStrategy(),
        "clear_results": lambda settings: ClearResultsStrategy(keep_results=settings.ladder.keep_results),
        "clear_thinking": lambda _: ClearThinkingStrategy(),
        "clear_arguments": lambda settings: ClearArgumentsStrategy(keep_calls=settings.ladder.keep_results),
        "drop_turns": lambda _: DropTurnsStrategy(),
        "turn_texts": lambda _: TurnTextsStrategy(),
    }
)
"""What makes each known rung from the settings; the summary is the engine's own."""


def strategy_of(rung: object, settings: Settings) -> Strategy:
    """Return the strategy of a rung of `LadderConfig.rungs` that is not the summary: a known one, or a user's own."""
    return STRATEGIES[rung](settings) if isinstance(rung, str) else cast("Strategy", rung)


def name_of(strategy: Strategy) -> str:
    """Return the name by which receipts and explanations call a strategy."""
    return str(getattr(strategy, "name", "") or type(strategy).__name__)
