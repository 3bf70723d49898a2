"""What was really sent last: what a warm summary call extends, and by which a broken prefix is seen."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import compress, count, zip_longest
from operator import is_, is_not, ne, or_
from typing import TYPE_CHECKING, Any, Final

from ctxkit import telemetry
from ctxkit.view import Place, contents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.engine.kit import Kit
    from ctxkit.port import Block, Request
    from ctxkit.view import View

logger = logging.getLogger("ctxkit")

_TOLD_TOKENS: Final = 1024
"""A break that costs fewer cached tokens is not told: no provider caches a shorter prefix (price sheet of OpenAI, Anthropic)."""

_SAID: Final = {
    "text": ("text",),
    "thinking": ("thinking",),
    "hint": ("hint",),
    "tool_call": ("id", "name", "input"),
    "tool_result": ("id", "name", "output"),
    "data": ("source",),
}
"""Block type to what of it reaches the wire."""


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """One request as a model got it, inner middlewares included."""

    request: Request
    contents: tuple[tuple[Block, ...], ...]
    """The blocks of its messages at that time; the running reply's message grows in place."""
    view: View
    """The agent's context at that time."""
    live: Sequence[Msg]
    """The list that the context was: every edit of it makes a new one."""
    model_key: str
    has_summary: bool


class SentLog:
    """Remembers the last request of one agent's own model, and tells when the next does not begin with it.

    Args:
        kit: The agent's kit.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._last: SentRequest | None = None
        self._told = ""

    def seen(self, request: Request) -> SentRequest:
        """Return a request that is about to be sent, with all that may change before anybody looks at it again."""
        port = self._kit.port
        return SentRequest(
            request=request,
            contents=contents_of(request.messages),
            view=self._kit.view(),
            live=port.context,
            model_key=port.model.key,
            has_summary=bool(port.summary),
        )

    def forget(self) -> None:
        """Remember nothing: what was sent is not what the agent's context has."""
        self._last = None

    async def keep(self, sent: SentRequest) -> None:
        """Remember a request that was taken, and tell if it broke the prefix of the one before though nothing was edited."""
        before, self._last = self._last, sent
        if before is None or before.live is not sent.live or before.model_key != sent.model_key:
            return
        try:
            await self._check(before, sent)
        except Exception:
            logger.exception("ctxkit could not compare a request with the one before")

    def extended(self, request: Request, view: View) -> Request:
        """Return what a warm summary call extends: the last request sent, with what has been finished since.

        Args:
            request: The request that would be sent now, which is taken where none was sent that holds this context.
            view: The context that is to be compressed.

        Returns:
            A request without open calls, for providers refuse those; its options and tool choice are those of the last
            request, since another one would empty some providers' cache.
        """
        sent = self._last
        if sent is None or sent.model_key != self._kit.port.model.key:
            return replace(request, messages=self._finished(request.messages, view))
        base = replace(request, tool_choice=sent.request.tool_choice, options=sent.request.options)
        if not _is_same_context(sent.view, view):
            return replace(base, messages=self._finished(request.messages, view))
        return replace(base, messages=self._grown(sent, view), tools=sent.request.tools)

    def _grown(self, sent: SentRequest, view: View) -> list[Msg]:
        """Return the messages of a sent request and behind them what has been finished since."""
        pairs = zip(sent.request.messages, sent.contents, strict=True)
        messages = [self._with(message, content) for message, content in pairs]
        seen = len(sent.view.messages)
        start = Place(seen - 1, len(sent.view.contents[-1])) if seen else Place(0, 0)
        end = _end(view)
        for index in range(max(0, start.message), len(view.messages)):
            content = view.contents[index][: end.block if index == end.message else None]
            first = start.block if index == start.message else 0
            if index > end.message or len(content) <= first:
                continue
            message = view.messages[index]
            if first and sent.request.messages and sent.request.messages[-1] is message:
                messages[-1] = self._with(message, content)  # as the host would send it: one message that has grown
            else:
                messages.append(self._with(message, content[first:]))
        return messages

    def _finished(self, messages: Sequence[Msg], view: View) -> Sequence[Msg]:
        """Return the messages of a request up to the last finished exchange."""
        end = _end(view)
        first_seen = view.messages[0] if view.messages else None
        layers = next((i for i, message in enumerate(messages) if message is first_seen), len(messages))
        kept = [*messages[:layers]]
        for index, (message, content) in enumerate(zip(messages[layers:], view.contents, strict=False)):
            finished = content[: end.block] if index == end.message else content
            if index < end.message or (index == end.message and finished):
                kept.append(self._with(message, finished))
        return kept

    def _with(self, message: Msg, content: Sequence[Block]) -> Msg:
        """Return a message with these blocks: itself where it has just these, and is not the one that the agent writes on.

        That one grows in place while a summary is asked for, and a call without its result makes a provider refuse it.
        """
        has, context = message.content, self._kit.port.context
        may_grow = bool(context) and message is context[-1]
        is_same = not may_grow and len(has) == len(content) and all(map(is_, has, content))
        return message if is_same else self._kit.codec.with_content(message, content)

    async def _check(self, before: SentRequest, after: SentRequest) -> None:
        found = _first_difference(before, after)
        if found is None:
            self._told = ""
            return
        component, place = found
        kind = component.split(" ")[0]  # the number of a message grows with each step
        if kind == self._told:
            return
        gauge, key = self._kit.gauge, after.model_key
        lost = [
            await gauge.block_tokens(block, model_key=key)
            for index, content in enumerate(before.contents[place.message :])
            for block in content[0 if index else place.block :]
        ]
        if sum(lost) < _TOLD_TOKENS:
            return
        self._told = kind
        stable = await gauge.weigh_messages(after.request.messages[: place.message], model_key=key)
        if kind != "tool":
            stable += await gauge.meter.scale.weigh_tools(after.request.tools)  # caches read them first
        stable_tokens = round(gauge.meter.calibrated(stable, model_key=key))
        logger.warning(
            "agent %r: %s is not what the request before had, so its provider's prompt cache serves only about %d tokens",
            self._kit.port.name,
            component,
            stable_tokens,
        )
        self._kit.tell_later(telemetry.CACHE_BROKEN, component=component, stable_tokens=stable_tokens)


def _end(view: View) -> Place:
    """Return where a context's finished part ends: before the first open call, or at the end."""
    if view.unfinished:
        first = view.unfinished[0].call
        cut = max((place for place in view.cuts if place <= first), default=None)
        if cut is not None:
            return cut
    return Place(len(view.messages), 0)


def _is_same_context(sent: View, now: View) -> bool:
    """Whether one of two views goes on where the other ends, with nothing edited."""
    return all(map(is_, sent.messages, now.messages)) and all(
        all(map(is_, before, after)) for before, after in zip(sent.contents, now.contents, strict=False)
    )


def _first_difference(before: SentRequest, after: SentRequest) -> tuple[str, Place] | None:
    """Return where a request stops beginning with the one before, by name and place; None where it never does.

    What is the same object is not looked into, so this costs what is new.
    """
    for old, new in zip_longest(before.request.tools, after.request.tools):
        if old is not new and old != new:
            tool = old if old is not None and old not in after.request.tools else new or old
            return f"tool {tool.get('function', tool).get('name', '?')!r}", Place(0, 0)
    last = len(before.contents) - 1
    for index in _not_alike(before, after):
        block = _changed_block(before, after, index)
        if block is not None:
            return _named(before, index, block), Place(index, block)
        if index < last and len(after.contents[index]) > len(before.contents[index]):
            return _named(before, index + 1, 0), Place(index + 1, 0)  # it stood at the end, for one request only
    return None


def _not_alike(before: SentRequest, after: SentRequest) -> list[int]:
    """Return which messages are not the very same in the next request, or have not the very same blocks there.

    At C speed, for it is asked at each step: equal tuples of the same objects are not looked into.
    """
    is_other = map(is_not, before.request.messages, after.request.messages)
    has_others = map(ne, before.contents, after.contents)
    shared = min(len(before.contents), len(after.contents))
    return [*compress(count(), map(or_, is_other, has_others)), *range(shared, len(before.contents))]


def _changed_block(before: SentRequest, after: SentRequest, index: int) -> int | None:
    """Return the first block of a message that is not the same in the next request, or None."""
    if index >= len(after.contents):
        return 0
    old, new = before.request.messages[index], after.request.messages[index]
    if old is not new and (old.role, old.name) != (new.role, new.name):
        return 0
    pairs = zip_longest(before.contents[index], after.contents[index][: len(before.contents[index])])
    return next((number for number, (a, b) in enumerate(pairs) if a is not b and not _is_same_block(a, b)), None)


def _is_same_block(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same_block, one, other))
    kind = getattr(one, "type", None)
    if kind not in _SAID or kind != getattr(other, "type", None):
        return bool(one == other)
    return all(_is_same_block(getattr(one, name), getattr(other, name)) for name in _SAID[kind])


def _named(sent: SentRequest, index: int, block: int) -> str:
    """Return the name of a part of a request, in the words of `ctxkit.tokens.prefix`."""
    messages = sent.request.messages
    layers = sum(1 for message in messages[:1] if message.role == "system")
    if index < layers:
        return "system prompt"
    if index == layers and sent.has_summary:
        return "summary"
    content = sent.contents[index]
    return f"message {index} ({content[block].type if block < len(content) else messages[index].role})"
