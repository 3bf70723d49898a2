"""When an automatic compression is due: looked at before each reasoning step, at the cost of what is new."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ctxkit import telemetry
from ctxkit.engine.arrivals import Arrivals
from ctxkit.errors import ContextUnfitError, CtxkitError
from ctxkit.ledger import scan_block
from ctxkit.plan import Reason
from ctxkit.strategies.history_limit import turns_over
from ctxkit.strategies.images import images_of
from ctxkit.strategies.old_results import old_results
from ctxkit.tokens import price_of
from ctxkit.triggers import Boundary, Habits, Moment, decide, safe_limit, task_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.kit import Kit
    from ctxkit.plan import Receipt
    from ctxkit.triggers import Decision
    from ctxkit.triggers.headroom import Call

logger = logging.getLogger("ctxkit")

_SLOT: Final = "when"
_KEPT_STEPS: Final = 5
"""Where a mode by price decides, the newest messages keep the tokens of so many steps, and at most the reserve: they are
read at every step and written anew at every edit, which makes a share of a large window dear."""
_LEAST_KEPT_TOKENS: Final = 4000
"""At least so many all the same, or the reserve where that is less."""
_SHOWN_PARTS: Final = 5
_RECALL_TOOLS: Final = frozenset({"search_context", "read_context"})


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a check before a reasoning step saw."""

    tokens: int
    trigger_tokens: int
    is_due: bool
    """Whether anything is to be done: a compression, or something oversized to be shortened."""
    why: str = ""
    """Why a compression is due or is not, in words."""
    growth_tokens: float = 0.0
    """Tokens that a reasoning step is expected to add."""
    floor_tokens: int = 0
    """Tokens that a compression is expected to leave."""
    decision: Decision | None = None
    """What was decided about a compression; `None` where it is held back."""


class Watch:
    """Watches one agent's context grow, and remembers what came of its compressions.

    Args:
        kit: The agent's kit.
        now: Seconds since the epoch; they tell a cold prompt cache, also after a restart.
    """

    def __init__(self, kit: Kit, *, now: Callable[[], float] = time.time) -> None:
        self._kit = kit
        self._now = now
        self._arrivals = Arrivals()
        self._oversized = False
        self._images = 0
        self._is_task_open = False
        self._boundary: Boundary | None = Boundary.RESTART
        self._tokens: int | None = None
        self._rest_step = 1
        self._limit_tokens = 0
        self._most_failures = 1
        self._has_told_overhead = False
        self._looked_at_history: str | None = None
        """The reply at whose beginning the earlier turns were held against their limits."""
        self._habits = Habits.from_json(kit.port.slot.get(_SLOT))
        self.decision: Decision | None = None
        """What the last look decided about a compression; `None` before the first."""

    async def look(self, settings: Settings) -> Look:
        """Measure the next request and what is new in the context; costs what is new."""
        reading = await self._kit.gauge.read(self._kit.port, unsure_factor=settings.window.estimate_factor)
        await self._look_at_new(reading, settings)
        moment = await self._moment(reading, settings)
        decision = decide(moment, settings.triggers)
        limit = self._limit_tokens = moment.limit_tokens
        self._most_failures = settings.triggers.breaker_failures
        held = self._why_held(reading, settings, limit_tokens=limit)
        await self._tell_overhead(reading, decision.trigger_tokens)
        if held is not None:
            decision = replace(decision, is_due=False, why=held)
        self.decision = decision
        is_resting = reading.tokens < min(self._habits.rest.until_tokens, limit)
        is_for_single = not is_resting and (self._oversized or self._images > settings.max_image_num)
        is_for_single = self._is_history_over(settings) or is_for_single
        self._tokens = reading.tokens
        self._rest_step = max(1, int(settings.triggers.min_gain_ratio * reading.context_size))
        self._boundary = None
        self._habits = replace(self._habits, seen_at=self._now())
        self._save()
        return Look(
            tokens=reading.tokens,
            trigger_tokens=decision.trigger_tokens,
            is_due=decision.is_due or is_for_single or self._kit.cleared_until is not None,
            why=decision.why,
            growth_tokens=moment.growth.tokens(reading.context_size),
            floor_tokens=moment.floor_tokens,
            decision=decision if held is None else None,
        )

    async def foresee(self, settings: Settings) -> int:
        """Return the tokens at which a compression will be due if no boundary comes before; nothing is remembered."""
        reading = await self._kit.gauge.read(self._kit.port, unsure_factor=settings.window.estimate_factor)
        moment = await self._moment(reading, settings)
        return decide(replace(moment, boundary=None), settings.triggers).trigger_tokens

    async def held_back(self, settings: Settings) -> str | None:
        """Return why no automatic compression is tried now, in words; `None` where nothing holds one back."""
        self._begin_turn()
        reading = await self._kit.gauge.read(self._kit.port, unsure_factor=settings.window.estimate_factor)
        limit = settings.limit_tokens(reading.context_size)
        return self._why_held(reading, settings, limit_tokens=limit)

    def _why_held(self, reading: Reading, settings: Settings, *, limit_tokens: int) -> str | None:
        return self._habits.rest.why(
            reading.tokens,
            limit_tokens=limit_tokens,
            safe_tokens=safe_limit(limit_tokens, self._habits.growth.largest(reading.context_size)),
            cooldown_turns=settings.triggers.cooldown_turns,
        )

    def failed(self, error: Exception) -> None:
        """Remember that a compression or the preparation of one failed."""
        if not isinstance(error, ContextUnfitError):
            problem = str(error) if isinstance(error, CtxkitError) else f"{type(error).__name__}: {error}"
            self._failed(problem)
            self._save()

    def ended(self, receipt: Receipt, settings: Settings) -> None:
        """Remember what came of a compression."""
        self._oversized = False
        if receipt.outcome == "failed":
            self._failed("; ".join(receipt.problems))
        elif receipt.outcome == "unneeded":
            self._rest_until((self._tokens or 0) + self._rest_step)
        elif receipt.reason is Reason.TRIGGER and self.decision is not None and not self.decision.is_due:
            self._rest_until(0)  # only what was oversized was shortened
        else:
            self._applied(receipt, settings)
        self._save()

    def rest_after_undo(self, turns: int) -> None:
        """Try no automatic compression for so many turns, as long as requests are safe to fit."""
        self._habits = replace(self._habits, rest=self._habits.rest.after_undo(turns))
        self._save()

    def _applied(self, receipt: Receipt, settings: Settings) -> None:
        after = receipt.tokens_after
        room = settings.limit_tokens(self._kit.gauge.window(self._kit.port.model)) - after
        decision, habits = self.decision, self._habits
        edits = habits.edits.after(receipt)
        until = 0
        is_priced = decision is not None and decision.is_priced
        if after >= receipt.limit_tokens and not is_priced:
            # What no edit can free is above the trigger: half of what is left may fill before the next summary.
            until = after + max(self._rest_step, room // 2)
        elif decision is not None and (decision.keep_messages is not None or decision.keep_turns is not None):
            # Where the count cannot be met, not at each step.
            until = 0 if self._is_count_met(settings) else after + self._rest_step
        elif decision is not None and decision.headroom_tokens is not None:
            # Where it leaves more than the trigger of its prices, which rises with that, there is no hurry either.
            floor = after if after >= receipt.limit_tokens else edits.floor_tokens
            until = floor + min(decision.headroom_tokens, room) // 2
        self._habits = replace(habits, edits=edits, rest=habits.rest.after_edit(until_tokens=until))

    def _is_count_met(self, settings: Settings) -> bool:
        """Whether there are no more messages and turns now than the limits by count allow."""
        view, triggers = self._kit.view(), settings.triggers
        messages = triggers.max_messages is None or sum(map(sum, view.counts)) <= triggers.max_messages
        return messages and (triggers.max_turns is None or len(view.user_turns) <= triggers.max_turns)

    def _failed(self, problem: str) -> None:
        """Wait with the next try until the context has grown a little; after some failures in a row until it is much fuller.

        Without this, a store or a model that is down would be asked again before each reasoning step.
        """
        tokens, failures = self._tokens or 0, self._habits.rest.failures + 1
        until = tokens + self._rest_step
        if failures >= self._most_failures:
            until = max(until, tokens + (self._limit_tokens - tokens) // 2)
        if failures == self._most_failures:
            self._kit.tell_later(telemetry.BREAKER, failures=failures, until_tokens=until, problem=problem)
        self._habits = replace(self._habits, rest=self._habits.rest.after_failure(until_tokens=until))

    def _rest_until(self, tokens: int) -> None:
        self._habits = replace(self._habits, rest=replace(self._habits.rest, until_tokens=tokens))

    def _save(self) -> None:
        self._kit.port.slot[_SLOT] = self._habits.to_json()

    async def _moment(self, reading: Reading, settings: Settings) -> Moment:
        """Return what is known now; prices and costs only where they can decide."""
        moment = Moment(
            tokens=reading.tokens,
            limit_tokens=settings.limit_tokens(reading.context_size),
            context_size=reading.context_size,
            ratio_tokens=int(settings.trigger_ratio * reading.context_size),
            is_ratio_explicit=settings.is_ratio_explicit,
            growth=self._habits.growth,
            boundary=self._boundary,
            is_task_open=self._is_task_open,
        )
        before = await self._prefix_tokens(reading) if settings.window.history_ratio < 1 else 0.0
        most = settings.most_tokens(
            reading.context_size,
            fixed_tokens=round(before),
            per_estimate=self._kit.gauge.per_estimate(reading, settings.triggers.chars_per_token),
        )
        moment = replace(moment, most_tokens=most)
        if settings.triggers.max_messages is not None or settings.triggers.max_turns is not None:
            view = self._kit.view()  # not long where it may not become so
            moment = replace(moment, messages=sum(map(sum, view.counts)), turns=len(view.user_turns))
        cost = settings.cost
        price = price_of(reading.model_key, cost.price, ask_for_cache=cost.ask_for_cache)
        if moment.is_ratio_explicit or price is None:
            return moment
        edits, seen_at = self._habits.edits, self._habits.seen_at
        prefix = await self._prefix_tokens(reading)
        keep = self._keep_tokens(settings, reading.context_size)
        is_cold = seen_at is not None and self._now() - seen_at > 60 * price.cache_minutes
        call: Call = "warm" if settings.summary.warm and settings.summary.model is None else "cold"
        return replace(
            moment,
            price=price,
            floor_tokens=edits.floor(prefix_tokens=prefix, keep_tokens=keep),
            late_tokens=edits.late_tokens,
            edit_cost=edits.cost(
                price,
                prefix_tokens=prefix,
                keep_tokens=keep,
                call=call,
                is_cold=is_cold,
            ),
            summary_cost=edits.summary_cost(price, request_tokens=reading.tokens, call=call),
            summary_steps=edits.steps_since,
            keep_tokens=keep,
            boundary=Boundary.COLD if is_cold and self._boundary is None else self._boundary,
        )

    async def _tell_overhead(self, reading: Reading, trigger_tokens: int) -> None:
        """Tell once where system prompt and tools alone are over the trigger: then no edit can bring a request below it."""
        if self._has_told_overhead or reading.tokens < trigger_tokens:
            return
        parts = await self._kit.gauge.fixed_parts(reading)
        fixed = sum(tokens for _, tokens in parts)
        if fixed < trigger_tokens:
            return
        self._has_told_overhead = True
        biggest = sorted(parts, key=lambda part: -part[1])[:_SHOWN_PARTS]
        logger.warning(
            "agent %r: system prompt and tools take %d tokens, the trigger is %d: %s. Offer fewer tools, shorten the prompt, "
            "or raise the trigger.",
            self._kit.port.name,
            fixed,
            trigger_tokens,
            ", ".join(f"{name} {tokens}" for name, tokens in biggest),
        )
        named = [{"part": name, "tokens": tokens} for name, tokens in biggest]
        self._kit.tell_later(telemetry.OVERHEAD, fixed_tokens=fixed, trigger_tokens=trigger_tokens, parts=named)

    async def _prefix_tokens(self, reading: Reading) -> float:
        """Return the tokens of all that stands before the messages: system prompt, tools and summary."""
        gauge, request, key = self._kit.gauge, reading.request, reading.model_key
        before = request.messages[: max(0, len(request.messages) - len(self._kit.port.context))]
        weight = await gauge.weigh_messages(before, model_key=key)
        weight += await gauge.meter.scale.weigh_tools(request.tools)
        return gauge.meter.calibrated(weight, model_key=key)

    def _keep_tokens(self, settings: Settings, context_size: int) -> int:
        """Return the tokens that the newest messages keep at most."""
        reserve = settings.reserve_ratio * context_size
        if settings.is_reserve_explicit:
            return int(reserve)
        steps = _KEPT_STEPS * self._habits.growth.tokens(context_size)
        return int(min(reserve, max(_LEAST_KEPT_TOKENS, steps)))

    async def _look_at_new(self, reading: Reading, settings: Settings) -> None:
        context = self._kit.port.context
        is_all_new = self._arrivals.is_all_new(context)
        if is_all_new:
            self._oversized, self._images = False, 0
            self._is_task_open = False
        elif self._tokens is not None:
            grown = self._habits.growth.after(max(0, reading.tokens - self._tokens))
            self._habits = replace(self._habits, growth=grown, edits=self._habits.edits.after_step())
        self._begin_turn()
        window = reading.context_size
        smallest = min(settings.paste_limit(window), settings.result_limit("", window))
        for place, block in self._arrivals.new(context):
            message = context[place.message]
            # Remembers what the ledger will want, so that a compression need not read it all.
            await scan_block(block, role=message.role)
            tokens = await self._kit.gauge.block_tokens(block, model_key=reading.model_key)
            self._oversized = self._oversized or tokens > smallest
            self._images += sum(1 for _ in images_of(block))
            if block.type == "tool_call":
                self._hear(block.name, block.input, is_news=not is_all_new)
        self._arrivals.looked(context)

    def _is_history_over(self, settings: Settings) -> bool:
        """Whether there are too many earlier turns, or results of theirs are too long.

        Asked once a turn: only a new one makes turns old. A limit that was taken back rests for a while.
        """
        port, history = self._kit.port, settings.history
        most_chars, most_turns = (
            history.old_result_chars,
            None if self._habits.rest.is_quiet else history.max_user_turns,
        )
        if port.reply_id == self._looked_at_history or (most_chars is None and most_turns is None):
            return False
        self._looked_at_history = port.reply_id
        view = self._kit.view()
        has_old = most_chars is not None and next(old_results(view, most_chars), None) is not None
        return has_old or next(turns_over(view, most_turns), None) is not None

    def _begin_turn(self) -> None:
        """Count a turn where another reply runs than at the last look; one that was parked goes on in the same turn."""
        reply_id, habits = self._kit.port.reply_id, self._habits
        if reply_id == habits.reply_id:
            return
        rest = habits.rest.after_turn() if habits.reply_id else habits.rest
        self._habits = replace(habits, reply_id=reply_id, rest=rest)
        self._boundary = Boundary.TURN

    def _hear(self, tool: str, arguments: str, *, is_news: bool) -> None:
        """Take from a call what it says of the agent's tasks, and whether it reads back what has left."""
        change = task_change(tool, arguments)
        if change is not None:
            self._is_task_open = change == "open"
        if is_news and change == "done":
            self._boundary = Boundary.TASK
        if is_news and tool in _RECALL_TOOLS:
            self._habits = replace(self._habits, edits=self._habits.edits.after_recall())
