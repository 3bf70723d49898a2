"""How the summary is made and how much of the window it may take."""

from dataclasses import dataclass
from typing import Literal

from ctxkit.config.checks import at_least, one_of, ratio, refuse, switch, whole

Placement = Literal["layer", "first_user"]
"""Where the summary stands: in AgentScope's own summary layer, or in the first user message of what stays."""
Timing = Literal["at_once", "next_turn"]
"""From when on the summary is there; until then a stub with the reference stands in its place."""
Lane = Literal["session", "global"]
"""The queue on which compressions wait for each other: that of their session, or one for all sessions of the process."""


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
    pins_share_ratio: float = 0.25
    """Share of that which pins may take, (0, 1]; more is refused when it is pinned."""
    timeout_s: float = 120.0
    """Seconds that all attempts at one summary may take together, above 0."""
    attempts: int = 2
    """Tries of one request that fails in a way that may pass, at least 1."""
    retry_delay_s: float = 0.5
    """Seconds before the second try, doubled at each further one, at least 0."""
    retry_delay_max_s: float = 5.0
    """Most seconds between two tries, at least 0.

    OpenClaw's values are `timeout_s=300, attempts=3, retry_delay_s=0.5, retry_delay_max_s=5.0`.
    """
    lane: Lane = "session"
    """Compress one after another in each session, or (`"global"`) in the whole process, first come, first served.

    The global lane bounds what summaries cost at a time where many agents share a model, and makes their replies wait.
    """

    model: object | None = None
    """An AgentScope chat model of its own for summaries; the agent's own where unset, and where this one fails.

    It pays where `p_cheap * C < r * p_main * C`: an own model never finds the history in its provider's prompt cache, so its
    price of an uncached token must be below the agent's model's price of a cached one. It has at most half of `timeout_s`.
    """
    prepare: bool = True
    """Make the summary in the background before it is needed, so that no reply waits for it."""
    verify: bool = True
    """Check each summary against its sources before it is used; see `ctxkit.summary.verify`."""
    reminder: bool = False
    """Say behind the summary what was accomplished and which tools there are."""
    reminder_tools: int = 20
    """Over so many tools the reminder names their groups in place of each, at least 0."""
    placement: Placement = "layer"
    """Where a request has the summary layer: in a message of its own, or at the beginning of the first user message of what
    stayed. `agent.state.summary` has it in any case."""
    timing: Timing = "at_once"
    """Of messages that leave without a summary (rungs `drop_turns` and `turn_texts`, strategy `truncate`): `"next_turn"` brings
    in what `MemoryMiddleware` has written of them, when the next turn begins; until then, and with `"at_once"` for good, a stub
    says where they are."""

    def __post_init__(self) -> None:
        for name in ("warm", "prepare", "verify", "reminder"):
            switch(self, name)
        whole(self, "reminder_tools", least=0)
        whole(self, "max_tokens", least=50)
        for name in ("share_ratio", "user_share_ratio", "ledger_share_ratio", "pins_share_ratio"):
            ratio(self, name)
        ratio(self, "timeout_s", to=86400)
        whole(self, "attempts", least=1)
        at_least(self, "retry_delay_s", 0)
        at_least(self, "retry_delay_max_s", 0)
        one_of(self, "lane", ("session", "global"))
        one_of(self, "placement", ("layer", "first_user"))
        one_of(self, "timing", ("at_once", "next_turn"))
        if self.model is not None and not (callable(self.model) and hasattr(self.model, "generate_structured_output")):
            refuse(self, "model", self.model, "give a chat model of AgentScope's, or None")
