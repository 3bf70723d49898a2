"""How large the window is taken to be, and what happens when a request does not fit it."""

from dataclasses import dataclass
from typing import Literal

from ctxkit.config.checks import at_least, one_of, ratio, switch, whole

OnUnfit = Literal["refuse", "clear"]
"""What happens when nothing more can be done to fit: raise `ContextUnfitError`, or clear the context (all of it stored)."""


@dataclass(frozen=True, kw_only=True)
class OverflowConfig:
    """What happens when a request does not fit, or the provider says so."""

    output_reserve_tokens: int = 1024
    """Tokens of the window left for the answer, at least 0; at most an eighth of the window is taken."""
    target_ratio: float = 0.5
    """An emergency view aims at this share of the window, (0, 1]."""
    retries: int = 3
    """Tries of a refused request, each strictly smaller, at least 0."""
    keep_messages_ratio: float | None = None
    """An emergency view keeps this share of `ladder.keep_messages`, rounded down, (0, 1]; `None` goes by `target_ratio` alone."""
    result_chars: int | None = None
    """Tool results keep at most so many characters in an emergency view, at least 100; `None` for no such limit."""
    text_chars: int | None = None
    """User texts keep at most so many characters in an emergency view, at least 100; `None` for no such limit."""
    max_turns: int | None = None
    """An emergency view has at most so many of the newest turns, at least 1; `None` for no such limit."""
    on_unfit: OnUnfit = "refuse"
    """What happens when nothing more can be done."""

    def __post_init__(self) -> None:
        whole(self, "output_reserve_tokens", least=0)
        ratio(self, "target_ratio")
        whole(self, "retries", least=0)
        if self.keep_messages_ratio is not None:
            ratio(self, "keep_messages_ratio")
        for name, least in (("result_chars", 100), ("text_chars", 100), ("max_turns", 1)):
            if getattr(self, name) is not None:
                whole(self, name, least=least)
        one_of(self, "on_unfit", ("refuse", "clear"))


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """How many tokens of the model's window there are, and how they are shared out."""

    max_tokens: int = 0
    """Tokens of the window; 0 takes what the model says, else the table of known models, else `default_tokens`."""
    cap_tokens: int | None = None
    """Most tokens of the window, whatever it is otherwise; `None` for no cap."""
    default_tokens: int | None = None
    """Tokens of the window of a model that neither says it nor stands in the table; `None` refuses such a model."""
    refuse_below_tokens: int = 0
    """A smaller window is refused; 0 refuses none."""
    warn_below_tokens: int = 0
    """A smaller window is warned of, once; 0 never warns."""
    allow_tiny: bool = False
    """Use windows below `refuse_below_tokens` all the same, for tests."""
    reserve_floor_tokens: int = 0
    """At least so many tokens are left free when a compression is due, at most the window without its history share."""
    history_ratio: float = 1.0
    """The messages may have at most this share of the window, (0, 1]."""
    history_margin: float = 1.0
    """The messages' share is multiplied by this, at least 1: OpenClaw's safeguard lets estimates be a fifth too high."""
    estimate_factor: float = 1.0
    """Estimates are multiplied by this until the provider has reported a usage, at least 1."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "refuse_below_tokens", "warn_below_tokens", "reserve_floor_tokens"):
            whole(self, name, least=0)
        for name in ("cap_tokens", "default_tokens"):
            if getattr(self, name) is not None:
                whole(self, name, least=1)
        switch(self, "allow_tiny")
        ratio(self, "history_ratio")
        at_least(self, "history_margin", 1)
        at_least(self, "estimate_factor", 1)
