"""Strategies make edits from a situation; the engine applies them. One strategy a file, cheapest first in a ladder."""

from ctxkit.strategies._base import Situation, Strategy
from ctxkit.strategies.clear_arguments import ClearArgumentsStrategy
from ctxkit.strategies.clear_results import ClearResultsStrategy
from ctxkit.strategies.clear_thinking import ClearThinkingStrategy
from ctxkit.strategies.compress import CompressStrategy
from ctxkit.strategies.deduplicate import DeduplicateStrategy
from ctxkit.strategies.drop_turns import DropTurnsStrategy
from ctxkit.strategies.images import ImageStrategy
from ctxkit.strategies.old_results import OldResultsStrategy
from ctxkit.strategies.registry import STRATEGIES, name_of, strategy_of
from ctxkit.strategies.shorten import AdmissionStrategy, ShortenStrategy
from ctxkit.strategies.shrink import ShrinkStrategy
from ctxkit.strategies.turn_stages import TurnStages
from ctxkit.strategies.turn_texts import TurnTextsStrategy

__all__ = [
    "STRATEGIES",
    "AdmissionStrategy",
    "ClearArgumentsStrategy",
    "ClearResultsStrategy",
    "ClearThinkingStrategy",
    "CompressStrategy",
    "DeduplicateStrategy",
    "DropTurnsStrategy",
    "ImageStrategy",
    "OldResultsStrategy",
    "ShortenStrategy",
    "ShrinkStrategy",
    "Situation",
    "Strategy",
    "TurnStages",
    "TurnTextsStrategy",
    "name_of",
    "strategy_of",
]
