"""All settings together, as the engine needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctxkit.config.hooks import HooksConfig
from ctxkit.config.ladder import LadderConfig
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
    is_ratio_explicit: bool = True
    """Whether somebody set `trigger_ratio`, so that it wins over `triggers.mode`."""
    is_reserve_explicit: bool = True
    """Whether somebody set `reserve_ratio`; where not, a mode by price may keep less."""

    def trigger_tokens(self, context_size: int) -> int:
        """Return the tokens above which a compression is due, for a window of `context_size` tokens."""
        tokens = int(self.trigger_ratio * context_size)
        return tokens if self.triggers.max_tokens is None else min(tokens, self.triggers.max_tokens)

    def limit_tokens(self, context_size: int) -> int:
        """Return the tokens that a request may have, the room for its answer left out."""
        return context_size - min(self.overflow.output_reserve_tokens, context_size // 8)

    def result_limit(self, tool: str, context_size: int) -> int:
        """Return the tokens that one result of a tool may have."""
        limit = self.results.per_tool_limits.get(tool)
        if limit is None:
            limit = min(self.tool_result_limit, int(self.results.limit_ratio * context_size))
        return min(limit, self.tool_result_limit)

    def paste_limit(self, context_size: int) -> int:
        """Return the tokens that one user message, hint or call's arguments may have."""
        return int(self.results.paste_limit_ratio * context_size)

    def recall_limit(self, context_size: int) -> int:
        """Return the tokens that one answer of a recall tool may have."""
        return min(self.offload.recall_tokens, context_size // 8)
