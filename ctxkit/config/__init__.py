"""The sections of the configuration: frozen, keyword-only dataclasses, one a concern.

They are nested in `ctxkit.ContextConfig`, which adds AgentScope's own fields. Each checks itself at construction and
says in a `ConfigError` which field has which value and what to do about it.
"""

from ctxkit.config.history import HistoryConfig
from ctxkit.config.hooks import HooksConfig
from ctxkit.config.ladder import KNOWN_RUNGS, SUMMARY_RUNG, LadderConfig
from ctxkit.config.memory import MemoryConfig
from ctxkit.config.offload import OffloadConfig, PrivacyConfig
from ctxkit.config.results import MarkerPlacement, ResultsConfig
from ctxkit.config.settings import Settings
from ctxkit.config.summary import Lane, SummaryConfig
from ctxkit.config.triggers import CostConfig, Mode, Price, TriggersConfig
from ctxkit.config.window import OnUnfit, OverflowConfig, WindowConfig

__all__ = [
    "KNOWN_RUNGS",
    "SUMMARY_RUNG",
    "CostConfig",
    "HistoryConfig",
    "HooksConfig",
    "LadderConfig",
    "Lane",
    "MarkerPlacement",
    "MemoryConfig",
    "Mode",
    "OffloadConfig",
    "OnUnfit",
    "OverflowConfig",
    "Price",
    "PrivacyConfig",
    "ResultsConfig",
    "Settings",
    "SummaryConfig",
    "TriggersConfig",
    "WindowConfig",
]
