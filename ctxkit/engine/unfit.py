"""Says what does not fit, and which parts are the biggest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.errors import ContextUnfitError
from ctxkit.strategies.ladder import leaving, lighter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxkit.plan import Edit
    from ctxkit.port import Block
    from ctxkit.strategies import Situation

_SHOWN = 5
"""How many of the biggest parts an error lists."""


def unfit_error(
    situation: Situation, edits: Sequence[Edit], *, needed_tokens: int, limit_tokens: int
) -> ContextUnfitError:
    """Return the error that says what does not fit and what to do.

    Args:
        situation: The context and what it weighs.
        edits: The edits that were not enough.
        needed_tokens: Tokens of the smallest request that could be made.
        limit_tokens: Tokens that the request may have.
    """
    gone = leaving(edits)
    left = lighter(situation, edits)
    parts = list(situation.fixed_parts or [("system prompt and tool schemas", situation.fixed_tokens)])
    parts += [
        (_describe(block), round(left.tokens[place.message][place.block]))
        for place, block in situation.view.blocks()
        if place not in gone
    ]
    biggest = sorted(parts, key=lambda part: -part[1])[:_SHOWN]
    listed = ", ".join(f"{name} ({tokens} tokens)" for name, tokens in biggest)
    return ContextUnfitError(
        f"The request needs {needed_tokens} tokens and may have {limit_tokens}; the context was left as it is. "
        f"Biggest parts: {listed}. Shorten the system prompt, offer fewer tools, or use a model with a larger window.",
        needed_tokens=needed_tokens,
        limit_tokens=limit_tokens,
        biggest=biggest,
    )


def _describe(block: Block) -> str:
    if block.type in {"tool_call", "tool_result"}:
        return f"{block.type.replace('_', ' ')} {block.id!r} of {block.name!r}"
    return f"{block.type} block {block.id!r}"
