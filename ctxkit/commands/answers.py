"""What a person is told of what a command has done: a few plain lines with figures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ctxkit.engine.pins import Pin
    from ctxkit.engine.steer.explain import Explanation
    from ctxkit.engine.steer.preview import Preview
    from ctxkit.engine.steer.undo import Undone
    from ctxkit.plan import Receipt

_MOST_TOUCHES: Final = 5


def counted(number: int, what: str) -> str:
    """Return a number of things in words: `1 turn`, `2 summaries`."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def compressed(receipt: Receipt) -> str:
    """Return what came of `/compact`."""
    if receipt.outcome == "unneeded":
        return f"Nothing was compressed: {receipt.why or 'nothing would have been gained'}."
    if receipt.outcome == "failed":
        return f"Nothing was compressed: {'; '.join(receipt.problems) or receipt.why}."
    lines = [
        f"Compressed: {receipt.tokens_before:,} tokens before, {receipt.tokens_after:,} now.",
        f"{counted(receipt.messages_compressed, 'message')} left; parts shortened: {receipt.blocks_shortened}; summary: {receipt.summary}.",
        *_stored(receipt),
        f"/undo takes it back (plan {receipt.plan_id}).",
    ]
    return "\n".join(lines)


def cleared(receipt: Receipt, *, has_recall: bool, has_memory: bool) -> str:
    """Return what came of `/context clear`.

    Args:
        receipt: The receipt.
        has_recall: Whether what was stored can be read back.
        has_memory: Whether it was written to memory.
    """
    if receipt.outcome != "applied":
        return f"Nothing was cleared: {'; '.join(receipt.problems) or receipt.why}."
    found = [
        *(["search_context finds what it said, and /undo brings it back"] if has_recall else []),
        *(["search_memory finds what was written to memory"] if has_memory else []),
    ]
    tokens = f"{receipt.tokens_before:,} tokens before, {receipt.tokens_after:,} now"
    lines = [
        f"Cleared: {counted(receipt.messages_compressed, 'message')} left; {tokens}.",
        *_stored(receipt),
        "; ".join(["The agent has forgotten the conversation", *found]) + ".",
    ]
    return "\n".join(lines)


def previewed(preview: Preview) -> str:
    """Return what `/preview` says."""
    fates = Counter(fate.what for fate in preview.fates)
    if set(fates) <= {"kept"}:
        return f"/compact would do nothing: {preview.why}."
    parts = ", ".join(f"{number} {what}" for what, number in fates.items())
    lines = [
        f"/compact would make {preview.tokens_before:,} tokens about {preview.tokens_after:,}: {parts}.",
        f"{preview.stable_tokens:,} tokens at the beginning stay as they are, so that a prompt cache still serves them.",
    ]
    if preview.bill is not None:
        pays = preview.bill.steps_to_pay
        pays_when = "it never pays for itself" if pays is None else f"it pays for itself after {counted(pays, 'step')}"
        dollars = "" if preview.bill.dollars is None else f", about ${preview.bill.dollars:.4f}"
        lines.append(f"At today's prices {pays_when}{dollars}.")
    return "\n".join(lines)


def undone(answer: Undone) -> str:
    """Return what came of `/undo`."""
    if answer.outcome == "refused":
        return f"Nothing was taken back: {answer.why}"
    lines = [
        f"Taken back (plan {answer.plan_id}): {counted(answer.messages, 'message')} came back, parts whole again: {answer.blocks}."
    ]
    if answer.tokens_before is not None and answer.tokens_after is not None:
        lines.append(f"{answer.tokens_before:,} tokens before, {answer.tokens_after:,} now.")
    if answer.redacted:
        lines.append(f"In {counted(len(answer.redacted), 'message')} secrets stay replaced, as they were stored.")
    return "\n".join([*lines, *answer.problems])


def pinned(pin: Pin) -> str:
    """Return what came of `/pin`."""
    where = {"context": "in the context", "summary": "in the summary", "waiting": "from the next turn on"}[pin.where]
    return f"Pinned {where}: {pin.tokens:,} tokens, which stay word for word (id {pin.id})."


def explained(answer: Explanation) -> str:
    """Return what `/explain` says."""
    lines = [f"{answer.id}: {answer.why}."]
    for touch in answer.touched[:_MOST_TOUCHES]:
        back = ", taken back" if touch.is_undone else ""
        lines.append(
            f"  {touch.what} by {touch.rule or touch.reason}, {touch.tokens:,} tokens, plan {touch.plan_id}{back}"
        )
    return "\n".join(lines)


def _stored(receipt: Receipt) -> list[str]:
    said = [] if receipt.reference is None else [f"What left is stored in {receipt.reference!r}."]
    return [*said, *(f"Trouble on the way: {problem}" for problem in receipt.problems)]
