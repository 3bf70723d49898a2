"""When ctxkit acts, and what tokens cost."""

from dataclasses import dataclass
from typing import Literal

from ctxkit.config.checks import at_least, one_of, ratio, refuse, switch, whole

Mode = Literal["quality", "balanced", "cost"]
"""What the time of a compression is chosen for: as late as is safe, both, or the smallest bill."""


@dataclass(frozen=True, kw_only=True)
class TriggersConfig:
    """When ctxkit acts, beside `trigger_ratio`.

    An explicit `ContextConfig.trigger_ratio` wins over `mode`. Where it is unset, and the prices of the model are known,
    the mode says when an automatic compression is due (`quality` asks for no price); manual calls and the host's tool always
    go by the ratio.
    """

    mode: Mode = "balanced"
    """What the time of an automatic compression is chosen for."""
    max_tokens: int | None = None
    """Act above this many tokens too, whatever the window; `None` for no such limit."""
    pressure_ratio: float | None = None
    """Act where the request has more than this share of the window without its output reserve, (0, 1]; `None` for no such
    limit."""
    max_messages: int | None = None
    """Act above this many messages, counted as a provider's format has them: a call, a result, a text."""
    max_turns: int | None = None
    """Act above this many turns, each from one user message to the next; the running one counts.

    With the rung `drop_turns` the oldest half of the others leaves then, rounded down, whatever they weigh; without it the
    newest half stays and a summary takes the rest.
    """
    min_gain_ratio: float = 0.02
    """An automatic compression that would free less than this share of the window is not worth a summary, (0, 1].

    Where prices decide, it is worth one from half a headroom on.
    """
    chars_per_token: float | None = None
    """What `pressure_ratio` is held against: characters of all messages by this, above 0; `None` takes the measured tokens of
    the request. Whether a request fits is always judged by the measured ones.
    """
    automatic: bool = True
    """Compress when it is due; off, that is done only where the next request would not fit, and by hand."""
    cooldown_turns: int = 0
    """No second automatic compression within so many turns, unless the request would not fit, at least 0."""
    breaker_failures: int = 3
    """After so many failures in a row no automatic summary is tried until the context has grown, at least 1."""
    attention_price: float = 0.05
    """Of mode `balanced`: what each resident token costs a step beside its cached read, in uncached input tokens, at least 0."""

    def __post_init__(self) -> None:
        one_of(self, "mode", ("quality", "balanced", "cost"))
        for name in ("max_tokens", "max_messages", "max_turns"):
            if getattr(self, name) is not None:
                whole(self, name, least=1)
        if self.pressure_ratio is not None:
            ratio(self, "pressure_ratio")
        if self.chars_per_token is not None:
            ratio(self, "chars_per_token", to=100)
        switch(self, "automatic")
        ratio(self, "min_gain_ratio")
        whole(self, "cooldown_turns", least=0)
        whole(self, "breaker_failures", least=1)
        at_least(self, "attention_price", 0)


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model's tokens cost, in units of one uncached input token."""

    cached: float = 0.1
    """A token that the prompt cache serves, at least 0; 1 where there is no cache."""
    written: float = 1.0
    """A token that is written to the cache, at least 1."""
    output: float = 5.0
    """A token of an answer, at least 0."""
    input_usd: float | None = None
    """US dollars of a million uncached input tokens; `None` where it is not known."""
    cache_minutes: float = 5.0
    """How long an unused prefix stays in the cache, above 0."""
    source: str = ""
    """Where the figures come from, and when they were read."""

    def __post_init__(self) -> None:
        for name, least in (("cached", 0), ("written", 1), ("output", 0)):
            at_least(self, name, least)
        if self.input_usd is not None:
            at_least(self, "input_usd", 0)
        ratio(self, "cache_minutes", to=100_000)
        if not isinstance(self.source, str):
            refuse(self, "source", self.source, "give a text")


@dataclass(frozen=True, kw_only=True)
class CostConfig:
    """What tokens cost, and how the provider's prompt cache is used."""

    price: Price | None = None
    """Prices of the agent's model; those of the table of known models where unset."""
    ask_for_cache: bool = False
    """Ask providers that cache only on request (Anthropic) to do so, by their automatic caching."""

    def __post_init__(self) -> None:
        if self.price is not None and not isinstance(self.price, Price):
            refuse(self, "price", self.price, "give a ctxkit.Price, or None")
        switch(self, "ask_for_cache")
