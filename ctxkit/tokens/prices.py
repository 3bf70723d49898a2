"""The table of list prices by model family: data, read from LiteLLM's price map 1.109.1 in November 2026."""

from __future__ import annotations

from typing import Final, NamedTuple


class Family(NamedTuple):
    """What the models of one family cost, in units of one uncached input token."""

    pattern: str
    """Regular expression, searched without regard to case in `"Class:name"`, as `ModelPort.key` has it."""
    cached: float
    written: float
    output: float
    input_usd: float | None
    """US dollars of a million uncached input tokens."""
    cache_minutes: float
    """Longest time that an unused prefix may stay in the cache; before that nobody may take it for cold."""


SOURCE: Final = "LiteLLM 1.109.1 price map, read 2026-11"
"""Where the prices come from. What a provider adds for long requests, for priority or for storage is not in them."""

ON_REQUEST: Final = r"\bclaude-"
"""Models whose provider caches only what it is asked to cache; AgentScope does not ask."""

UNPRICED: Final = r"^Ollama|:.*\bgpt-oss"
"""Models that have no list price, whatever their family: they run on the user's own machines."""

DAY: Final = 1440.0
"""Minutes; DeepSeek's cache lies on disk for hours to days, OpenAI keeps a prefix for 24 hours where it is told to."""
HOUR: Final = 60.0
"""Minutes; OpenAI names an hour as the most, and providers that name no time are not known to keep it longer."""

FAMILIES: Final[tuple[Family, ...]] = (
    Family(r"\bclaude-(fable|mythos)-5-1", 0.025, 1.25, 5, 10, 5),
    Family(r"\bclaude-(fable|mythos)-", 0.1, 1.25, 5, 10, 5),
    Family(r"\bclaude-opus-5-5", 0.05, 1.25, 5, 4, 5),
    Family(r"\bclaude-sonnet-5-5", 0.05, 1.25, 5, 2, 5),
    Family(r"\bclaude-haiku-5-5", 0.1, 1.25, 5, 0.1, 5),
    Family(r"\bclaude-opus-", 0.1, 1.25, 5, 5, 5),
    Family(r"\bclaude-sonnet-5", 0.1, 1.25, 5, 2, 5),
    Family(r"\bclaude-sonnet-", 0.1, 1.25, 5, 3, 5),
    Family(r"\bclaude-haiku-", 0.1, 1.25, 5, 1, 5),
    Family(r"\bclaude-", 0.1, 1.25, 5, None, 5),
    Family(r"\bgpt-[56][.\d]*-pro\b", 1, 1, 8, None, HOUR),
    Family(r"\bgpt-6\.1", 0.05, 1.25, 5, None, DAY),
    Family(r"\bgpt-6", 0.1, 1.25, 5, None, DAY),
    Family(r"\bgpt-5\.6", 0.1, 1.25, 5, None, DAY),
    Family(r"\bgpt-5\.5", 0.1, 1, 6, 5, DAY),
    Family(r"\bgpt-5\.4-nano", 0.1, 1, 6.25, 0.2, DAY),
    Family(r"\bgpt-5\.4-mini", 0.1, 1, 6, 0.75, DAY),
    Family(r"\bgpt-5\.4", 0.1, 1, 6, 2.5, DAY),
    Family(r"\bgpt-5\.[23]", 0.1, 1, 8, 1.75, DAY),
    Family(r"\bgpt-5(\.1)?[\w-]*-mini", 0.1, 1, 8, 0.25, DAY),
    Family(r"\bgpt-5-nano", 0.1, 1, 8, 0.05, DAY),
    Family(r"\bgpt-5", 0.1, 1, 8, 1.25, DAY),
    Family(r"\bgpt-4\.1-nano", 0.25, 1, 4, 0.1, HOUR),
    Family(r"\bgpt-4\.1-mini", 0.25, 1, 4, 0.4, HOUR),
    Family(r"\bgpt-4\.1", 0.25, 1, 4, 2, HOUR),
    Family(r"\bgpt-4o-mini", 0.5, 1, 4, 0.15, HOUR),
    Family(r"\bgpt-4o", 0.5, 1, 4, 2.5, HOUR),
    Family(r"\bo[134]-pro\b", 1, 1, 4, None, HOUR),
    Family(r"\bo(1|3-mini)\b", 0.5, 1, 4, None, HOUR),
    Family(r"\bo4-mini\b", 0.25, 1, 4, 1.1, HOUR),
    Family(r"\bo3\b", 0.25, 1, 4, 2, HOUR),
    Family(r"\bgemini-4", 0.05, 1, 5, 2, HOUR),
    Family(r"\bgemini-3\.[678]-flash", 0.1, 1, 5, 0.75, HOUR),
    Family(r"\bgemini-2\.5-flash-lite", 0.1, 1, 4, 0.1, HOUR),
    Family(r"\bgemini-2\.5-flash", 0.1, 1, 8.33, 0.3, HOUR),
    Family(r"\bgemini-2\.5-pro", 0.1, 1, 8, 1.25, HOUR),
    Family(r"\bgemini-", 0.1, 1, 6, None, HOUR),
    # DeepSeek's models at another house have that house's prices.
    Family(r"^DashScope.*\bdeepseek-v4-flash", 0.2, 1, 2, 0.2, HOUR),
    Family(r"^DashScope.*\bdeepseek-v4-pro", 0.083, 1, 2, 2.4, HOUR),
    Family(r"\bdeepseek-(v4-)?flash", 0.02, 1, 4, 0.3, DAY),
    Family(r"\bdeepseek-v4-pro", 0.033, 1, 3, 1.32, DAY),
    Family(r"\bdeepseek-(chat|reasoner)", 0.1, 1, 1.5, 0.28, DAY),
    Family(r"\bkimi-k3\.1", 0.1, 1, 5, 2, HOUR),
    Family(r"\bkimi-k3", 0.1, 1, 5, 3, HOUR),
    Family(r"\bkimi-k2\.[67]", 0.2, 1, 4.21, 0.95, HOUR),
    Family(r"\bkimi-k2", 0.167, 1, 5, 0.6, HOUR),
    Family(r"\bmoonshot-v1", 1, 1, 2.5, None, HOUR),
    Family(r"\bglm-5\.3-flash", 0.2, 1, 3.33, 0.15, HOUR),
    Family(r"\bglm-5\.[123]", 0.186, 1, 3.14, 1.4, HOUR),
    Family(r"\bglm-5", 0.2, 1, 3.2, 1, HOUR),
    Family(r"\bglm-4\.[67]", 0.183, 1, 3.67, 0.6, HOUR),
    Family(r"\bgrok-4\.[67]", 0.25, 1, 3, 2, HOUR),
    Family(r"\bgrok-4\.5", 0.15, 1, 3, 2, HOUR),
    Family(r"\bgrok-4", 0.16, 1, 2, 1.25, HOUR),
    Family(r"\bgrok-(build|code)", 0.2, 1, 2, 1, HOUR),
    Family(r"\bqwen3\.8-max", 0.125, 1, 3, 2, HOUR),
    Family(r"\bqwen3\.8-(omni-)?flash", 0.107, 1, 3.13, 0.15, HOUR),
    Family(r"\bqwen3\.7-max", 0.2, 1, 3, 2.5, HOUR),
    # MiniMax caches by itself and asks nothing for writing; only its cache on request costs 1.25 a written token.
    Family(r"\bminimax-m2[.\d]*-lightning", 0.1, 1, 8, 0.3, HOUR),
    Family(r"\bminimax-m2", 0.1, 1, 4, 0.3, HOUR),
    Family(r"\bminimax-m3", 0.2, 1, 4, 0.3, HOUR),
    Family(r"\bdoubao-seed-2-1-lite", 0.2, 1, 3.38, 0.115, HOUR),
    Family(r"\bdoubao-seed-2-1-turbo", 0.2, 1, 5, 0.431, HOUR),
    Family(r"\bdoubao-seed-2-1-pro", 0.2, 1, 5, 0.863, HOUR),
    Family(r"\bmistral-large-4", 0.103, 1, 3.07, 1.36, HOUR),
    Family(r"\bmistral-large", 0.1, 1, 3, 0.5, HOUR),
    Family(r"\bmistral-medium", 0.1, 1, 5, 1.5, HOUR),
    Family(r"\bmistral-small", 0.1, 1, 4, 0.15, HOUR),
    Family(r"\bcodestral", 0.1, 1, 3, 0.3, HOUR),
    Family(r"\bdevstral-(medium|latest)", 0.1, 1, 5, 0.4, HOUR),
)
"""The families, the more special ones first: the first whose pattern is found holds."""
