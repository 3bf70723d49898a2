"""What no plan may break; one function a rule, each returning what is broken in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxkit.plan import EditKind
from ctxkit.view import Place, View

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.plan import Edit
    from ctxkit.port import Block

_TAKES = {
    EditKind.CLEAR: {"tool_result", "text", "hint"},
    EditKind.SHRINK: {"tool_result", "text", "hint"},
    EditKind.TRUNCATE: {"tool_result", "tool_call", "text", "hint"},
    EditKind.IMAGE: {"tool_result", "data", "hint"},
}
"""The types of the blocks that each kind of edit may change."""


def broken_rules(
    before: View,
    after: View,
    *,
    tokens_before: float,
    tokens_after: float,
    must_shrink: bool = True,
    pinned: frozenset[int] = frozenset(),
    layer: str = "",
) -> tuple[str, ...]:
    """Return every rule that a change of context breaks, in words; empty where it may be made.

    Args:
        before: The context as it is.
        after: The context as it would be.
        tokens_before: Tokens of the whole request as it is.
        tokens_after: Tokens of the whole request as it would be.
        must_shrink: Whether the change is made for room: an image over the limit leaves though its note may be longer.
        pinned: Indices of the messages of `before` that somebody pinned.
        layer: Text of the summary layer as it would be, where what is pinned may stand as well.
    """
    return (
        *pairs_whole(before, after),
        *unfinished_kept(before, after),
        *latest_request_kept(before, after),
        *thinking_kept(before, after),
        *running_message_last(before, after),
        *pins_kept(before, after, pinned=pinned, layer=layer),
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
    """A kept call of the running turn keeps the thinking that precedes it in its reasoning step.

    Of turns that are over, thinking may leave: providers check it inside a tool loop only. The running turn is what
    stands behind the newest user request, and the message of the running reply.

    Hosts of local models number calls anew in each reply; of calls that share an id, the oldest are taken to have left.
    """
    kept = {block.id for _, block in after.blocks() if block.type == "thinking"}
    left = Counter(e.call_id for e in before.exchanges) - Counter(e.call_id for e in after.exchanges)
    problems = []
    over = before.latest_request[-1] if before.latest_request else -1
    for index, content in enumerate(before.contents):
        is_running = index > over or before.messages[index].id == before.reply_id
        thinking: list[str] = []
        for block in content:
            if block.type == "thinking":
                thinking.append(block.id)
            elif block.type == "tool_call" and left[block.id] > 0:
                left[block.id] -= 1
            elif is_running and block.type == "tool_call" and not kept.issuperset(thinking):
                problems.append(f"call {block.id!r} lost its thinking")
            elif block.type in {"tool_result", "hint"}:
                thinking = []
    return problems


def running_message_last(before: View, after: View) -> list[str]:
    """The message that the running reply appends to stays the last one."""
    if before.is_running_last and not after.is_running_last:
        return ["the running reply's message is no longer the last one"]
    return []


def pins_kept(before: View, after: View, *, pinned: frozenset[int], layer: str) -> list[str]:
    """A pinned message stays word for word, in its place or in the summary layer."""
    kept: dict[str, list[Sequence[Block]]] = {}
    for message, content in zip(after.messages, after.contents, strict=True) if pinned else ():
        kept.setdefault(message.id, []).append(content)
    problems = []
    for index in sorted(pinned):
        message, content = before.messages[index], before.contents[index]
        texts = _texts(content)
        if content not in kept.get(message.id, ()) and not (texts and all(text in layer for text in texts)):
            problems.append(f"the pinned message {message.id!r} is gone or was changed")
    return problems


def misplaced(view: View, edit: Edit, *, pinned: frozenset[int] = frozenset()) -> str | None:
    """Say why an edit that a strategy made may not be carried out, whatever else is; None where it may.

    Args:
        view: The context that it was made from.
        edit: The edit.
        pinned: Indices of the messages that somebody pinned.
    """
    where = f"{edit.kind} of blocks {edit.start} to {edit.stop} of message {edit.message}"
    problem = None
    if not 0 <= edit.message < len(view) or not 0 <= edit.start <= edit.stop <= len(view.contents[edit.message]):
        problem = "there are no such blocks"
    elif edit.message in pinned:
        problem = "the message is pinned"
    elif edit.kind in _TAKES:
        problem = "name one block" if edit.stop != edit.start + 1 else _unchangeable(view, edit)
    return None if problem is None else f"{where}: {problem}"


def _unchangeable(view: View, edit: Edit) -> str | None:
    """Say why the one block that an edit names cannot stand there otherwise; None where it can."""
    block = view.contents[edit.message][edit.start]
    if block.type not in _TAKES[edit.kind]:
        return f"it is a block of type {block.type!r}"
    if edit.kind in {EditKind.CLEAR, EditKind.SHRINK} and edit.text is None:
        return "it has no text for what stands there afterwards"
    if view.is_unfinished(Place(edit.message, edit.start)):
        return "the call is still to be carried out"
    return "it is the newest user request" if edit.message in view.latest_request and block.type == "text" else None


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
