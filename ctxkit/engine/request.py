"""Make one request fit its window: a smaller view of it is sent, the agent's context stays as it is."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import plan_clear
from ctxkit.engine.emergency import plan_emergency, plan_limits
from ctxkit.engine.layer import DROPPED, layer_text
from ctxkit.engine.unfit import unfit_error
from ctxkit.ledger import Ledger
from ctxkit.overflow import Overflow, recognise
from ctxkit.plan import EditKind
from ctxkit.results import defuse
from ctxkit.strategies import Situation
from ctxkit.strategies.ladder import LEAVING
from ctxkit.summary.reminder import TITLE as REMINDER_TITLE
from ctxkit.summary.reminder import reminder_text
from ctxkit.view import Place, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.plan import Edit
    from ctxkit.port import Block, ModelPort
    from ctxkit.tokens import Weight

logger = logging.getLogger("ctxkit")

_SHRINK_RATIO = 0.75
"""Each further try aims at this share of the one before."""
_CREDIBLE_RATIO = 0.25
"""A refusal that names no limit teaches one only if the request had this share of the window: estimates are never wrong by
so much, and then it was refused for its bytes or pictures."""
_NAMED = 3
"""So many of the user's requests and of the tools in it are named."""
_NAME_CHARS = 80


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request as it is sent."""

    messages: Sequence[Msg]
    weight: Weight
    tokens: int
    left_out: Sequence[Edit] = ()
    """The parts of the context that are not in it."""
    shortened: int = 0
    """How many blocks are in it shortened."""


class RequestFitter:
    """Fits one request of the host to one model, and learns from what the provider answers.

    The host calls the model hook again for each retry and each fallback model, always with the request in full; what was
    learnt about a request is kept by the kit, so that the next try starts where the last one stopped.

    Args:
        kit: The agent's kit.
        model: The model that is about to be called; a fallback model may have a smaller window.
        messages: The host's messages, those of outer middlewares included.
        tools: The tool schemas.
        settings: How to shorten.
    """

    def __init__(
        self,
        kit: Kit,
        model: ModelPort,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]],
        *,
        settings: Settings,
    ) -> None:
        self._kit = kit
        self._model = model
        self._messages = messages
        self._tools = tools
        self._settings = settings
        self._sent: Sent | None = None
        self._refusals = 0

    async def first(self) -> Sequence[Msg]:
        """Return the messages to send: the host's own where they fit.

        Raises:
            ContextUnfitError: It is certain that no view of the request fits.
        """
        whole = await self._weighed(self._messages)
        limit = self._limit()
        target = self._kit.learnt_targets.get(self._memo_key())
        if target is None and self._is_too_large(whole.tokens, limit):
            target = self._emergency_target(limit)
        if target is None or whole.tokens <= target:
            self._sent = whole
        else:
            self._sent = await self._fit(whole, target, limit)
            self._tell(limit, needed_tokens=whole.tokens)
        return self._sent.messages

    async def after_refusal(self, error: Exception) -> Sequence[Msg] | None:
        """Return a strictly smaller view after a provider refused, or None where the error is to be raised.

        None means that the error is no overflow, or that all retries are used.

        Raises:
            ContextUnfitError: Nothing smaller can be made.
        """
        overflow = recognise(error)
        sent = self._sent
        if overflow is None or sent is None:
            return None
        tokens = self._learn_refusal(overflow, sent)
        limit = self._limit()
        target = min(self._emergency_target(limit), int(tokens * _SHRINK_RATIO))
        # Remembered even where this was the last try: the host's own retry starts smaller than what was refused.
        self._kit.learnt_targets[self._memo_key()] = target
        self._refusals += 1
        if self._refusals == 1:
            self._kit.tell_overflow()
        if self._refusals > self._settings.overflow.retries:
            return None
        self._sent = await self._fit(await self._weighed(self._messages), target, limit, refused_tokens=tokens)
        self._tell(limit, needed_tokens=overflow.needed_tokens)
        return self._sent.messages

    def _learn_refusal(self, overflow: Overflow, sent: Sent) -> int:
        """Learn from a provider's refusal; return the tokens that the refused request had, as far as is known now."""
        key, meter = self._model.key, self._kit.gauge.meter
        if overflow.needed_tokens is not None:
            meter.learn(sent.weight, overflow.needed_tokens, model_key=key)
        tokens = meter.estimate(sent.weight, model_key=key)
        if overflow.limit_tokens is not None:
            meter.learn_limit(key, overflow.limit_tokens)
        elif tokens > self._model.context_size * _CREDIBLE_RATIO:
            meter.learn_limit(key, tokens)  # no number was named, but the window is smaller than what was refused
        self._kit.save_meter()
        return tokens

    def learn(self, input_tokens: int) -> None:
        """Anchor the estimates on what the provider says the request had."""
        if self._sent is not None:
            self._kit.learn(self._sent.weight, input_tokens, model_key=self._model.key)

    async def _weighed(self, messages: Sequence[Msg]) -> Sent:
        meter, key = self._kit.gauge.meter, self._model.key
        weight = await meter.weigh_request(messages, self._tools, model_key=key)
        return Sent(messages=messages, weight=weight, tokens=meter.estimate(weight, model_key=key))

    async def _fit(self, whole: Sent, target: int, limit: int, *, refused_tokens: int | None = None) -> Sent:
        """Return a view of at most `target` tokens, or the smallest there is where that is within the limit.

        Args:
            whole: The request in full.
            target: Tokens to aim at.
            limit: Tokens that the request may have.
            refused_tokens: Tokens of a view that the provider refused; what is returned is smaller.

        Raises:
            ContextUnfitError: There is no such view.
        """
        head, view = self._split(whole.messages)
        situation = await self._situation(whole, view)

        def fits(sent: Sent) -> bool:
            is_smaller = refused_tokens is None or sent.tokens < refused_tokens
            return is_smaller and not self._kit.is_over(sent.tokens, limit, self._model.key)

        is_refused, clears = refused_tokens is not None, self._settings.overflow.on_unfit == "clear"
        edits = plan_limits(situation)
        fitted = await self._edited(head, view, edits) if edits else whole
        is_fit = bool(edits) and fits(fitted)
        if not is_fit and not (self._has_limits and clears and is_refused):
            edits = plan_emergency(situation, target)
            fitted = await self._edited(head, view, edits)
            is_fit = fits(fitted)
        if not is_fit and clears:
            edits = plan_clear(situation)
            fitted = await self._edited(head, view, edits)
            if is_refused and view.messages:
                self._kit.cleared_until = (view.messages[-1].id, len(view.contents[-1]))
            is_fit = fits(fitted)
        if not is_fit:
            raise unfit_error(situation, edits, needed_tokens=fitted.tokens, limit_tokens=limit)
        return fitted

    @property
    def _has_limits(self) -> bool:
        """Whether somebody says what an emergency leaves of a request."""
        overflow = self._settings.overflow
        return any(most is not None for most in (overflow.max_turns, overflow.result_chars, overflow.text_chars))

    async def _edited(self, head: Sequence[Msg], view: View, edits: Sequence[Edit]) -> Sent:
        replacements = await self._shortened(view, edits)
        kept = apply_edits(view, edits, replacements, self._kit.codec)
        sent = await self._weighed([*head, *await self._note(view, edits), *kept])
        out = [edit for edit in edits if edit.kind in LEAVING and edit.stop > edit.start]
        return replace(sent, left_out=out, shortened=len(replacements))

    async def _shortened(self, view: View, edits: Sequence[Edit]) -> dict[Place, Block]:
        shortener = self._kit.shortener(self._settings, self._model.key)
        replacements = {}
        for edit in edits:
            if edit.kind is EditKind.TRUNCATE:
                block = view.contents[edit.message][edit.start]
                mark = block.metadata.get("ctxkit", {}) if block.type == "tool_result" else {}
                replacements[Place(edit.message, edit.start)] = await shortener.truncated(
                    block, edit, reference=mark.get("reference")
                )
        return replacements

    async def _situation(self, whole: Sent, view: View) -> Situation:
        gauge = self._kit.gauge
        table = await gauge.table(view, model_key=self._model.key)
        situation = Situation(
            view=view,
            tokens=table,
            request_tokens=whole.tokens,
            fixed_tokens=max(0, round(whole.tokens - sum(map(sum, table)))),
            context_size=gauge.window(self._model),
            settings=self._settings,
        )
        summary = self._settings.summary
        room = summary.pins_share_ratio * summary.share_ratio * situation.context_size
        return replace(situation, pinned=self._kit.pins.in_place(situation, room))

    def _split(self, messages: Sequence[Msg]) -> tuple[Sequence[Msg], View]:
        """Return the layers that stay (system prompt, summary) and a view of the rest."""
        port = self._kit.port
        layers = 0
        while layers < len(messages) and messages[layers].role == "system":
            layers += 1
        if port.summary and layers < len(messages) and messages[layers].role == "user":
            layers += 1
        return messages[:layers], View(messages[layers:], agent_name=port.name, reply_id=port.reply_id)

    async def _note(self, view: View, edits: Sequence[Edit]) -> list[Msg]:
        """Return the message that says what was left out; nothing is lost, the agent's context still has it.

        Where a reminder is wanted and the summary layer has none, it stands in the note.
        """
        out = [edit for edit in edits if edit.kind in LEAVING]
        if not out:
            return []
        text = (
            f"{DROPPED}\n<system-info>{len(out)} earlier messages (about {sum(edit.tokens for edit in out)} tokens) were left out of "
            "this request, which would not have fitted the context window. They are not lost, but you cannot see them now: "
            f"{_told(view, out)}. Where your answer depends on them, say so.</system-info>"
        )
        summary = self._settings.summary
        if summary.reminder and REMINDER_TITLE not in layer_text(self._kit.port.summary):
            ledger = await Ledger().read(taken_away(view, out, self._kit.codec))
            text += "\n" + reminder_text(self._tools, ledger, most_tools=summary.reminder_tools)
        return [self._kit.codec.user_message(text)]

    def _tell(self, limit: int, *, needed_tokens: int | None) -> None:
        sent = self._sent
        if sent is None:
            return
        left_out_tokens = sum(edit.tokens for edit in sent.left_out)
        if sent.left_out:
            logger.warning(
                "agent %r goes on without %d earlier messages (about %d tokens), which its context still has%s",
                self._kit.port.name,
                len(sent.left_out),
                left_out_tokens,
                f": {self._kit.store_problem}" if self._kit.store_problem else "",
            )
        self._kit.tell_later(
            telemetry.OVERFLOW,
            limit_tokens=limit,
            needed_tokens=needed_tokens,
            attempt=self._refusals,
            tokens_after=sent.tokens,
            left_out_messages=len(sent.left_out),
            left_out_tokens=left_out_tokens,
            shortened_blocks=sent.shortened,
            problem=self._kit.store_problem,
        )

    def _limit(self) -> int:
        return self._settings.limit_tokens(self._kit.gauge.window(self._model))

    def _emergency_target(self, limit: int) -> int:
        return int(limit * self._settings.overflow.target_ratio)

    def _is_too_large(self, tokens: int, limit: int) -> bool:
        """Whether a request is better not sent as it is.

        The context was made to fit the agent's own model, so there an estimate must be sure; to another model, a fallback,
        a view that was not needed does less harm than a refusal or a prompt that is cut in silence.
        """
        if self._model.key == self._kit.port.model.key:
            return self._kit.is_over(tokens, limit, self._model.key)
        return tokens > limit

    def _memo_key(self) -> tuple[str, int, str, int]:
        """Return what tells this request and model from others: the host passes the same messages at each try."""
        tail = self._messages[-1]
        return (self._model.key, len(self._messages), tail.id, len(tail.content))


def _told(view: View, out: Sequence[Edit]) -> str:
    """Return what stands in parts of a context, in a few words: what the user asked there, and which tools answered."""
    asked: list[str] = []
    tools: Counter[str] = Counter()
    for edit in out:
        for block in view.contents[edit.message][edit.start : edit.stop]:
            if block.type == "tool_result":
                tools[block.name] += 1
            elif block.type == "text" and view.messages[edit.message].role == "user":
                asked.append(_quoted(block.text))
    more = f" and {len(asked) - _NAMED} more" if len(asked) > _NAMED else ""
    said = f"the user's words {', '.join(asked[:_NAMED])}{more}" if asked else ""
    counted = ", ".join(f"{_quoted(tool)} {times}x" for tool, times in tools.most_common(_NAMED))
    others = " and others" if len(tools) > _NAMED else ""
    results = f"results of {counted}{others}" if tools else ""
    return " and ".join(part for part in (said, results) if part) or "what you said yourself"


def _quoted(text: str) -> str:
    """Return the beginning of a text, in which nothing can be taken for a marker."""
    line = " ".join(text[: 2 * _NAME_CHARS].split())
    return f'"{defuse(line[:_NAME_CHARS])}{"…" if len(line) > _NAME_CHARS else ""}"'
