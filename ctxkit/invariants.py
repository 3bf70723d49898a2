"""What no plan may break; one function a rule, each returning what is broken in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxkit.view import View

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block


def broken_rules(
    before: View, after: View, *, tokens_before: float, tokens_after: float, must_shrink: bool = True
) -> tuple[str, ...]:
    """Return every rule that a change of context breaks, in words; empty where it may be made.

    Args:
        before: The context as it is.
        after: The context as it would be.
        tokens_before: Tokens of the whole request as it is.
        tokens_after: Tokens of the whole request as it would be.
        must_shrink: Whether the change is made for room: an image over the limit leaves though its note may be longer.
    """
    return (
        *pairs_whole(before, after),
        *unfinished_kept(before, after),
        *latest_request_kept(before, after),
        *thinking_kept(before, after),
        *running_message_last(before, after),
        *(strictly_smaller(tokens_before, tokens_after) if must_shrink else ()),
    )


def pairs_whole(before: View, after: View) -> list[str]:
    """A call and its result stay together or leave together."""
    had, has = (Counter(exchange.call_id for exchange in view.exchanges if exchange.result) for view in (before, after))
    calls_before, calls = (Counter(exchange.call_id for exchange in view.exchanges) for view in (before, after))
    results_before, results = (Counter(b.id for _, b in v.blocks() if b.type == "tool_result") for v in (before, after))
    problems = [f"call {i!r} lost its result" for i in (calls - has) - (calls_before - had)]
    problems += [f"result {i!r} lost its call" for i in (results - has) - (results_before - had)]
    return problems


def unfinished_kept(before: View, after: View) -> list[str]:
    """A call whose result is still to come stays."""
    left = Counter(e.call_id for e in before.unfinished) - Counter(e.call_id for e in after.unfinished)
    return [f"unfinished call {call_id!r} is gone" for call_id in left]


def latest_request_kept(before: View, after: View) -> list[str]:
    """The newest user request stays verbatim, or shortened where it was marked as too large for its budget."""
    kept: dict[str, list[Msg]] = {}
    for message in after.messages:
        if message.role == "user":
            kept.setdefault(message.id, []).append(message)
    problems = []
    for index in before.latest_request:
        message = before.messages[index]
        there = kept.get(message.id, ())
        if not there:
            problems.append(f"the newest user request {message.id!r} is gone")
        elif not any(_is_marked(one) or _texts(one.content) == _texts(message.content) for one in there):
            problems.append(f"the newest user request {message.id!r} was changed")
    return problems


def thinking_kept(before: View, after: View) -> list[str]:
    """A kept call keeps the thinking that precedes it in its reasoning step.

    Hosts of local models number calls anew in each reply; of calls that share an id, the oldest are taken to have left.
    """
    kept = {block.id for _, block in after.blocks() if block.type == "thinking"}
    left = Counter(e.call_id for e in before.exchanges) - Counter(e.call_id for e in after.exchanges)
    problems = []
    for content in before.contents:
        thinking: list[str] = []
        for block in content:
            if block.type == "thinking":
                thinking.append(block.id)
            elif block.type == "tool_call" and left[block.id] > 0:
                left[block.id] -= 1
            elif block.type == "tool_call" and not kept.issuperset(thinking):
                problems.append(f"call {block.id!r} lost its thinking")
            elif block.type in {"tool_result", "hint"}:
                thinking = []
    return problems


def running_message_last(before: View, after: View) -> list[str]:
    """The message that the running reply appends to stays the last one."""
    if before.is_running_last and not after.is_running_last:
        return ["the running reply's message is no longer the last one"]
    return []


def strictly_smaller(tokens_before: float, tokens_after: float) -> list[str]:
    """A plan that frees nothing is not applied."""
    if tokens_after < tokens_before:
        return []
    return [f"the request would not shrink: {tokens_before:.0f} tokens before, {tokens_after:.0f} after"]


def _is_marked(message: Msg) -> bool:
    mark = message.metadata.get("ctxkit")
    return isinstance(mark, dict) and bool(mark.get("shortened"))


def _texts(content: Sequence[Block]) -> list[str]:
    return [block.text for block in content if block.type == "text"]
