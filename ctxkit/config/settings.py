"""All settings together, as the engine needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from ctxkit.config.history import HistoryConfig
from ctxkit.config.hooks import HooksConfig
from ctxkit.config.ladder import LadderConfig
from ctxkit.config.memory import MemoryConfig
from ctxkit.config.offload import OffloadConfig, PrivacyConfig
from ctxkit.config.results import ResultsConfig
from ctxkit.config.summary import SummaryConfig
from ctxkit.config.triggers import CostConfig, TriggersConfig
from ctxkit.config.window import OverflowConfig, WindowConfig


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that the engine needs to know, whichever class of config the agent was given."""

    trigger_ratio: float
    reserve_ratio: float
    compression_prompt: str
    summary_template: str
    summary_schema: Mapping[str, Any]
    tool_result_limit: int
    fallback_to_truncation: bool
    max_image_num: int
    results: ResultsConfig = field(default_factory=ResultsConfig)
    summary: SummaryConfig = field(default_factory=SummaryConfig)
    triggers: TriggersConfig = field(default_factory=TriggersConfig)
    overflow: OverflowConfig = field(default_factory=OverflowConfig)
    offload: OffloadConfig = field(default_factory=OffloadConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    ladder: LadderConfig = field(default_factory=LadderConfig)
    cost: CostConfig = field(default_factory=CostConfig)
    window: WindowConfig = field(default_factory=WindowConfig)
    hooks: HooksConfig = field(default_factory=HooksConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    is_ratio_explicit: bool = True
    """Whether somebody set `trigger_ratio`, so that it wins over `triggers.mode`."""
    is_reserve_explicit: bool = True
    """Whether somebody set `reserve_ratio`; where not, a mode by price may keep less."""
    is_result_limit_explicit: bool = True
    """Whether somebody set `tool_result_limit`, so that it holds in place of `results.limit_tokens`."""

    def trigger_tokens(self, context_size: int, *, fixed_tokens: int = 0, per_estimate: float = 1.0) -> int:
        """Return the tokens above which a compression is due by ratio, for a window of `context_size` tokens.

        Args:
            context_size: Tokens of the window.
            fixed_tokens: Tokens of the request that are no messages: system prompt, tools and summary.
            per_estimate: Measured tokens for each one of the estimate that `pressure_ratio` goes by.
        """
        most = self.most_tokens(context_size, fixed_tokens=fixed_tokens, per_estimate=per_estimate)
        return min(int(self.trigger_ratio * context_size), most)

    def most_tokens(self, context_size: int, *, fixed_tokens: int = 0, per_estimate: float = 1.0) -> int:
        """Return the tokens above which a compression is due by any ratio and in any mode.

        Args:
            context_size: Tokens of the window.
            fixed_tokens: Tokens of the request that are no messages: system prompt, tools and summary.
            per_estimate: Measured tokens for each one of the estimate that `pressure_ratio` goes by.
        """
        triggers, window = self.triggers, self.window
        history = self.history_tokens(context_size)
        limits = [context_size - min(window.reserve_floor_tokens, context_size - history)]
        if history < context_size:
            limits.append(fixed_tokens + history)
        if triggers.max_tokens is not None:
            limits.append(triggers.max_tokens)
        if triggers.pressure_ratio is not None:
            limits.append(ceil(triggers.pressure_ratio * self.available_tokens(context_size) * per_estimate))
        return min(limits)

    def history_tokens(self, context_size: int) -> int:
        """Return the tokens that the messages may have before a compression is due, as far as their share says."""
        share = self.window.history_ratio * self.window.history_margin
        return min(context_size, int(share * context_size))

    def limit_tokens(self, context_size: int) -> int:
        """Return the tokens that a request may have, the room for its answer left out."""
        return context_size - min(self.overflow.output_reserve_tokens, context_size // 8)

    def available_tokens(self, context_size: int) -> int:
        """Return the tokens of the window without its whole output reserve, which pressure and shares of it are about."""
        available = context_size - self.overflow.output_reserve_tokens
        return available if available > 0 else self.limit_tokens(context_size)

    def result_limit(self, tool: str, context_size: int) -> int:
        """Return the tokens that one result of a tool may have."""
        limit = self.results.per_tool_limits.get(tool)
        if limit is None:
            whole = context_size if self.results.limit_of == "window" else self.available_tokens(context_size)
            limit = int(self.results.limit_ratio * whole)
            if not self.is_result_limit_explicit:
                limit = min(limit, self.results.limit_tokens)
        return min(limit, self.tool_result_limit)

    def paste_limit(self, context_size: int) -> int:
        """Return the tokens that one user message, hint or call's arguments may have."""
        return int(self.results.paste_limit_ratio * context_size)

    def recall_limit(self, context_size: int) -> int:
        """Return the tokens that one answer of a recall tool may have."""
        return min(self.offload.recall_tokens, context_size // 8)
