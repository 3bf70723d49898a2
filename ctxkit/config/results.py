"""How tool results, pastes and arguments enter the context."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ctxkit.config.checks import one_of, ratio, refuse, tool_names, whole

MarkerPlacement = Literal["gap", "end"]
"""Where the truncation marker stands: between head and tail, or at the end of what is kept."""

LimitOf = Literal["window", "available"]
"""What a share is of: the context size, or what `overflow.output_reserve_tokens` leaves of it."""


@dataclass(frozen=True, kw_only=True)
class ResultsConfig:
    """How tool results, pastes and tool-call arguments enter the context."""

    limit_ratio: float = 0.25
    """One result keeps at most this share of the context size, (0, 1]; the host's `tool_result_limit` applies beside it."""
    limit_of: LimitOf = "window"
    """What `limit_ratio` is a share of."""
    limit_tokens: int = 8000
    """One result keeps at most so many tokens in windows of any size, at least 1, unless `tool_result_limit` was set.

    A result is read at each later step, and a large one soon costs more than the steps themselves (benchmarks/cost.py):
    the agent pages through the whole of it with `read_context`.
    """
    paste_limit_ratio: float = 0.25
    """One user message, hint or tool-call argument keeps at most this share of the context size, (0, 1]."""
    head_ratio: float = 0.6
    """Share of what is kept that comes from the start of a text, (0, 1]; the rest comes from its end."""
    per_tool_limits: Mapping[str, int] = field(default_factory=dict)
    """Limits in tokens by tool name; they win over `limit_ratio` and `limit_tokens`, never over the host's `tool_result_limit`."""
    exclude_tools: frozenset[str] = frozenset()
    """Tools whose results are never shortened on admission (they still are where nothing else fits)."""
    verbatim_tools: frozenset[str] = frozenset({"Read", "read_file", "view", "cat", "Edit", "Write"})
    """Tools whose results an editor will match: cut by lines, never reformatted."""
    marker: MarkerPlacement = "gap"
    """Where `<<<TRUNCATED>>>` stands."""

    def __post_init__(self) -> None:
        ratio(self, "limit_ratio")
        whole(self, "limit_tokens", least=1)
        ratio(self, "paste_limit_ratio")
        ratio(self, "head_ratio")
        one_of(self, "marker", ("gap", "end"))
        one_of(self, "limit_of", ("window", "available"))
        if not isinstance(self.per_tool_limits, Mapping):
            refuse(self, "per_tool_limits", self.per_tool_limits, "give a mapping of tool names to tokens")
        for tool, limit in self.per_tool_limits.items():
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                refuse(self, "per_tool_limits", {tool: limit}, "give a number of tokens of at least 1 for each tool")
        object.__setattr__(self, "per_tool_limits", dict(self.per_tool_limits))
        tool_names(self, "exclude_tools")
        tool_names(self, "verbatim_tools")
