"""The sections of the configuration: frozen, keyword-only dataclasses, one a concern.

They are nested in `ctxkit.ContextConfig`, which adds AgentScope's own fields. Each checks itself at construction and
says in a `ConfigError` which field has which value and what to do about it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from ctxkit.errors import ConfigError

OnUnfit = Literal["refuse", "clear"]
"""What happens when nothing more can be done to fit: raise `ContextUnfitError`, or clear the context (all of it stored)."""

Lane = Literal["session", "global"]
"""The queue on which compressions wait for each other: that of their session, or one for all sessions of the process."""

MarkerPlacement = Literal["gap", "end"]
"""Where the truncation marker stands: between head and tail, or at the end of what is kept."""


def _refuse(section: object, name: str, value: object, rule: str) -> None:
    msg = f"{type(section).__name__}.{name} is {value!r}: {rule}."
    raise ConfigError(msg)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _ratio(section: object, name: str, *, above: float = 0.0, to: float = 1.0) -> None:
    value = getattr(section, name)
    if not _is_number(value) or not above < value <= to:
        _refuse(section, name, value, f"give a ratio above {above:g} and at most {to:g}")


def _at_least(section: object, name: str, least: float) -> None:
    value = getattr(section, name)
    if not _is_number(value) or value < least:
        _refuse(section, name, value, f"give a finite number of at least {least:g}")


def _whole(section: object, name: str, *, least: int) -> None:
    value = getattr(section, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        _refuse(section, name, value, f"give a whole number of at least {least}")


def _switch(section: object, name: str) -> None:
    value = getattr(section, name)
    if not isinstance(value, bool):
        _refuse(section, name, value, "give True or False")


def _tool_names(section: object, name: str) -> None:
    """Refuse what is no collection of names, and make a frozen set of what is; one name alone would give its letters."""
    value = getattr(section, name)
    if isinstance(value, str) or not isinstance(value, Collection) or any(not isinstance(tool, str) for tool in value):
        _refuse(section, name, value, "give a set of tool names, for example {'Read'}")
    object.__setattr__(section, name, frozenset(value))


def _one_of(section: object, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(section, name)
    if value not in allowed:
        _refuse(section, name, value, "give one of " + ", ".join(repr(a) for a in allowed))


@dataclass(frozen=True, kw_only=True)
class ResultsConfig:
    """How tool results, pastes and tool-call arguments enter the context."""

    limit_ratio: float = 0.25
    """One result keeps at most this share of the context size, (0, 1]; the host's `tool_result_limit` applies beside it."""
    paste_limit_ratio: float = 0.25
    """One user message, hint or tool-call argument keeps at most this share of the context size, (0, 1]."""
    head_ratio: float = 0.6
    """Share of what is kept that comes from the start of a text, (0, 1]; the rest comes from its end."""
    per_tool_limits: Mapping[str, int] = field(default_factory=dict)
    """Limits in tokens by tool name; they win over the others."""
    exclude_tools: frozenset[str] = frozenset()
    """Tools whose results are never shortened on admission (they still are where nothing else fits)."""
    verbatim_tools: frozenset[str] = frozenset({"Read", "read_file", "view", "cat", "Edit", "Write"})
    """Tools whose results an editor will match: cut by lines, never reformatted."""
    marker: MarkerPlacement = "gap"
    """Where `<<<TRUNCATED>>>` stands."""

    def __post_init__(self) -> None:
        _ratio(self, "limit_ratio")
        _ratio(self, "paste_limit_ratio")
        _ratio(self, "head_ratio")
        _one_of(self, "marker", ("gap", "end"))
        if not isinstance(self.per_tool_limits, Mapping):
            _refuse(self, "per_tool_limits", self.per_tool_limits, "give a mapping of tool names to tokens")
        for tool, limit in self.per_tool_limits.items():
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                _refuse(self, "per_tool_limits", {tool: limit}, "give a number of tokens of at least 1 for each tool")
        object.__setattr__(self, "per_tool_limits", dict(self.per_tool_limits))
        _tool_names(self, "exclude_tools")
        _tool_names(self, "verbatim_tools")


@dataclass(frozen=True, kw_only=True)
class SummaryConfig:
    """How the summary is made and how much of the window it may take."""

    warm: bool = True
    """Ask for the summary by extending the last request, so that the provider's prompt cache serves it."""
    max_tokens: int = 2000
    """Most tokens of the five fields; a longer answer is refused and asked for again, shorter."""
    share_ratio: float = 0.15
    """Stubs, ledger, user texts and state together take at most this share of what the fixed overhead leaves, (0, 1].

    Each request pays for it: on recorded runs (benchmarks/recall.py) twice as much keeps 2% more of the identifiers that
    are used again, two thirds as much 5% fewer.
    """
    user_share_ratio: float = 0.3
    """Share of that which verbatim user requests and constraints may take, (0, 1]."""
    ledger_share_ratio: float = 0.5
    """Share of that which the ledger may take, (0, 1]."""
    timeout_s: float = 120.0
    """Seconds that all attempts at one summary may take together, above 0."""
    attempts: int = 2
    """Tries of one request that fails in a way that may pass, at least 1."""
    retry_delay_s: float = 0.5
    """Seconds before the second try, doubled at each further one, at least 0."""
    lane: Lane = "session"
    """Compress one after another in each session, or (`"global"`) in the whole process, first come, first served.

    The global lane bounds what summaries cost at a time where many agents share a model, and makes their replies wait.
    """

    def __post_init__(self) -> None:
        _switch(self, "warm")
        _whole(self, "max_tokens", least=50)
        for name in ("share_ratio", "user_share_ratio", "ledger_share_ratio"):
            _ratio(self, name)
        _ratio(self, "timeout_s", to=86400)
        _whole(self, "attempts", least=1)
        _at_least(self, "retry_delay_s", 0)
        _one_of(self, "lane", ("session", "global"))


@dataclass(frozen=True, kw_only=True)
class TriggersConfig:
    """When ctxkit acts, beside `trigger_ratio`."""

    max_tokens: int | None = None
    """Act above this many tokens too, whatever the window; `None` for no such limit."""
    min_gain_ratio: float = 0.02
    """An automatic compression that would free less than this share of the window is not worth a summary, (0, 1]."""

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _whole(self, "max_tokens", least=1)
        _ratio(self, "min_gain_ratio")


@dataclass(frozen=True, kw_only=True)
class OverflowConfig:
    """What happens when a request does not fit, or the provider says so."""

    output_reserve_tokens: int = 1024
    """Tokens of the window left for the answer, at least 0; at most an eighth of the window is taken."""
    target_ratio: float = 0.5
    """An emergency view aims at this share of the window, (0, 1]."""
    retries: int = 3
    """Tries of a refused request, each strictly smaller, at least 0."""
    on_unfit: OnUnfit = "refuse"
    """What happens when nothing more can be done."""

    def __post_init__(self) -> None:
        _whole(self, "output_reserve_tokens", least=0)
        _ratio(self, "target_ratio")
        _whole(self, "retries", least=0)
        _one_of(self, "on_unfit", ("refuse", "clear"))


@dataclass(frozen=True, kw_only=True)
class OffloadConfig:
    """How what leaves the context is stored and recalled."""

    timeout_s: float = 10.0
    """Seconds that one call of an offloader may take, above 0."""
    local_copy: bool = True
    """Beside an offloader that can only write, keep a copy that recall can read."""
    recall_tools: bool = True
    """Register `search_context` and `read_context` for the agent."""
    recall_tokens: int = 2000
    """Most tokens that one call of a recall tool returns; at most an eighth of the window is taken."""

    def __post_init__(self) -> None:
        _ratio(self, "timeout_s", to=86400)
        _switch(self, "local_copy")
        _switch(self, "recall_tools")
        _whole(self, "recall_tokens", least=100)


@dataclass(frozen=True, kw_only=True)
class PrivacyConfig:
    """What is kept from disks and from summaries.

    `LocalWorkspace` and `StoreOffloader` have their own `redactor` for what they store; this one is for what other
    offloaders get, for summaries, and for saved sessions.
    """

    redact: bool = True
    """Replace secrets in what leaves the context; off, everything goes as it is."""
    redactor: Callable[[str], str] | None = None
    """Returns a text without secrets, always the same for the same text; ctxkit's `SecretRedactor` where unset."""

    def __post_init__(self) -> None:
        _switch(self, "redact")
        if self.redactor is not None and not callable(self.redactor):
            _refuse(self, "redactor", self.redactor, "give a function that returns a text without secrets, or None")


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
