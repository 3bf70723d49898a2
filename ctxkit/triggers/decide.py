"""Whether an automatic compression is due at one moment, at how many tokens it would be, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxkit.triggers.growth import Growth
from ctxkit.triggers.headroom import headroom
from ctxkit.triggers.safe import safe_limit

if TYPE_CHECKING:
    from ctxkit.config import Price, TriggersConfig

HYSTERESIS_RATIO: Final = 0.9
"""A compression aims at this share of its trigger at most, so that the next step does not trigger again."""
EARLIEST: Final = 0.7
"""From this share of the headroom on it acts where a boundary is seen; a bill at 0.7 is at most 3.6% above the least
(simulated, 16 settings), and one where work is cut in two is dearer."""
LATEST: Final = 1.4
"""Up to this share of the headroom it waits for the end of a task that is under way; the same 3.6%."""
LEAST_HEADROOM: Final = 1024
"""Tokens; below that each step would be an edit."""


class Boundary(StrEnum):
    """Something ends or begins here, so that a compression disturbs least."""

    TURN = "a new turn begins"
    TASK = "a task has been finished"
    COLD = "the prompt cache has gone cold"
    RESTART = "the agent has just been restored"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is known of a context before a reasoning step."""

    tokens: int
    """Tokens of the next request."""
    limit_tokens: int
    """Tokens that it may have."""
    context_size: int
    """Tokens of the window."""
    ratio_tokens: int
    """The trigger that `trigger_ratio` gives, its default where unset."""
    is_ratio_explicit: bool
    """Whether somebody set `trigger_ratio`."""
    floor_tokens: int = 0
    """Tokens that are there right after an edit: system prompt, tools, summary and what stays."""
    late_tokens: float = 0.0
    """Tokens by which edits come behind their trigger."""
    edit_cost: float = 0.0
    """What an edit costs, in uncached input tokens."""
    summary_cost: float = 0.0
    """What a summary costs beyond an edit that only clears, in uncached input tokens."""
    summary_steps: int = 0
    """Reasoning steps since the last summary, or since the first that was seen."""
    price: Price | None = None
    """The prices; `None` where they are not known."""
    growth: Growth = field(default_factory=Growth)
    messages: int = 0
    """Messages, as `ctxkit.view.View.counts` has them; looked at where a limit is set."""
    turns: int = 0
    keep_tokens: int = 0
    """Tokens that the newest messages keep where prices decide; 0 where they do not."""
    most_tokens: int | None = None
    """Tokens at which one is due in any mode: `max_tokens`, `pressure_ratio`, and what the window's section leaves."""
    boundary: Boundary | None = None
    is_task_open: bool = False
    """Whether the agent has said that it works at a task, so that a boundary is to be expected."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a compression is due, and how far it should go."""

    is_due: bool
    trigger_tokens: int
    """Tokens at which it is due now."""
    goal_tokens: int
    """Tokens that a request should have at most when it is done."""
    worth_tokens: int
    """Tokens that it must free to be worth what it costs."""
    why: str
    """In words, with the figures."""
    keep_tokens: int = 0
    """Tokens that the newest messages keep at most; 0 where the reserve says so."""
    headroom_tokens: int | None = None
    """Of the modes by price: tokens that the context should grow by between two edits."""
    summary_tokens: float = 0.0
    """Of the modes by price: tokens that a summary must free beyond what clearing frees, to be worth its price."""
    keep_messages: int | None = None
    """Of `max_messages`: so many of the newest messages stay."""
    keep_turns: int | None = None
    """Of `max_turns`: so many of the newest turns stay."""

    @property
    def is_priced(self) -> bool:
        """Whether prices say when it is due: no ratio, no count and no limit does."""
        return self.headroom_tokens is not None and self.keep_messages is None and self.keep_turns is None

    def ahead(self, *, tokens: int, floor_tokens: int) -> Decision:
        """Return the decision by which a compression is planned before it is due.

        What comes until then can be cleared as well, so that of what it must free there is only a share by now.

        Args:
            tokens: Tokens of the next request.
            floor_tokens: Tokens that a compression is expected to leave.
        """
        way = self.trigger_tokens - floor_tokens
        share = min(1.0, max(0.0, (tokens - floor_tokens) / way)) if way > 0 else 1.0
        return replace(self, is_due=True, worth_tokens=max(1, int(share * self.worth_tokens)))


class _Threshold(NamedTuple):
    tokens: int
    why: str
    headroom: int | None = None


def decide(moment: Moment, triggers: TriggersConfig) -> Decision:
    """Return whether an automatic compression is due.

    The lowest of all limits in tokens decides; the limits by count hold beside it and ask for no price.

    Args:
        moment: What is known.
        triggers: The limits, and the mode.
    """
    threshold = _threshold(moment, triggers)
    most = moment.most_tokens
    if triggers.automatic and most is not None and most < threshold.tokens:
        threshold = _Threshold(
            most, f"{most:,} tokens are the most (max_tokens, pressure_ratio or the window's shares)"
        )
    by_count = _by_count(moment, triggers) if triggers.automatic else None
    goal = HYSTERESIS_RATIO * min(threshold.tokens, max(1, moment.tokens))
    worth = triggers.min_gain_ratio * moment.context_size
    if threshold.headroom is not None:
        goal = min(goal, moment.floor_tokens + threshold.headroom / 2)
        # What an edit frees, R, saves r * R a step for H / g steps: less than K where R is below K * g / (r * H) = H / 2.
        room = min(threshold.headroom, threshold.tokens - moment.floor_tokens)
        worth = room / 2 if room > 0 else worth
    is_over = moment.tokens >= threshold.tokens
    compared = "reach" if is_over else "are below"
    decision = Decision(
        is_due=is_over,
        trigger_tokens=threshold.tokens,
        goal_tokens=int(goal),
        worth_tokens=max(1, int(worth)),
        keep_tokens=0 if triggers.mode == "quality" else moment.keep_tokens,
        headroom_tokens=threshold.headroom,
        summary_tokens=0.0 if threshold.headroom is None else _summary_tokens(moment, triggers),
        why=f"{moment.tokens:,} tokens {compared} the trigger: {threshold.why}",
    )
    if is_over or by_count is None:
        return decision
    keep_messages, keep_turns, why = by_count
    # By count no price is asked for, and no gain.
    return replace(decision, is_due=True, worth_tokens=1, keep_messages=keep_messages, keep_turns=keep_turns, why=why)


def _by_count(moment: Moment, triggers: TriggersConfig) -> tuple[int | None, int | None, str] | None:
    """Return how much stays, in messages or turns, and why, where there are too many; half goes, as tokens would."""
    messages, turns = triggers.max_messages, triggers.max_turns
    if messages is not None and moment.messages > messages:
        return messages // 2, None, f"{moment.messages} messages are over {messages} (max_messages)"
    if turns is not None and moment.turns > turns:
        return None, turns // 2, f"{moment.turns} turns are over {turns} (max_turns)"
    return None


def _threshold(moment: Moment, triggers: TriggersConfig) -> _Threshold:
    """Return the tokens at which the ratio or the mode says that a compression is due."""
    limit = moment.limit_tokens
    if not triggers.automatic:
        return _Threshold(
            limit, f"{limit:,} tokens are the most that a request may have, and triggers.automatic is off"
        )
    safe = safe_limit(limit, moment.growth.largest(moment.context_size))
    if moment.is_ratio_explicit:
        return _Threshold(moment.ratio_tokens, f"{moment.ratio_tokens:,} tokens by trigger_ratio, which was set")
    if triggers.mode == "quality":
        return _Threshold(safe, f"{safe:,} tokens are safe, for mode quality")
    if moment.price is None:
        return _Threshold(moment.ratio_tokens, f"{moment.ratio_tokens:,} tokens by trigger_ratio; no price is known")
    return _priced(moment, triggers, moment.price, most=min(moment.ratio_tokens, safe))


def _summary_tokens(moment: Moment, triggers: TriggersConfig) -> float:
    """Return the tokens that a summary must free beyond what clearing frees.

    What only a summary can free has grown since the last one, by d tokens in n steps, and has cost `r * d * n / 2` in reads.
    As with the headroom, all together is least where that is what one costs.
    """
    price = moment.price
    resident = 0.0 if price is None else price.cached + _attention(triggers)
    return 2 * moment.summary_cost / (resident * max(1, moment.summary_steps)) if resident > 0 else float("inf")


def _attention(triggers: TriggersConfig) -> float:
    """Return what a resident token costs a step beside its read."""
    return triggers.attention_price if triggers.mode == "balanced" else 0.0


def _priced(moment: Moment, triggers: TriggersConfig, price: Price, *, most: int) -> _Threshold:
    """Return the tokens at which an edit pays, clipped to what is safe and moved to a boundary that is near."""
    attention = _attention(triggers)
    growth = moment.growth.tokens(moment.context_size)
    # What keeps for nothing is edited only where it must be.
    best = min(headroom(moment.edit_cost, growth, price, attention=attention), moment.limit_tokens)
    room = max(LEAST_HEADROOM, int(best))
    share = EARLIEST if moment.boundary is not None else LATEST if moment.is_task_open else 1.0
    # What an edit comes late has grown as well; but half a headroom is to grow in any case.
    tokens = moment.floor_tokens + max(int(share * room - moment.late_tokens), int(share * room / 2))
    where = "" if moment.boundary is None else f", and {moment.boundary}"
    if tokens > most:
        return _Threshold(most, f"{most:,} tokens are the most that mode {triggers.mode} waits for", room)
    why = (
        f"in mode {triggers.mode} an edit pays from {tokens:,} tokens on ({moment.floor_tokens:,} stay, headroom {room:,} "
        f"at {growth:,.0f} tokens a step and {price.cached:g} for a cached token; {price.source or 'own price'}){where}"
    )
    return _Threshold(tokens, why, room)
