"""What a strategy sees, and what it must offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxkit.config import Settings
    from ctxkit.plan import Edit
    from ctxkit.view import View


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A context and what it weighs, at one moment."""

    view: View
    tokens: Sequence[Sequence[float]]
    """Estimated tokens of each block, by message and block."""
    request_tokens: int
    """Estimated tokens of the whole request."""
    fixed_tokens: int
    """Of these, tokens of the system prompt and the tool schemas, which no edit can free."""
    context_size: int
    """Tokens of the model's window, as far as it is known to be true."""
    settings: Settings
    pinned: frozenset[int] = frozenset()
    """Indices of the messages that somebody pinned: no edit may touch them."""
    open_errors: frozenset[str] = frozenset()
    """Ids of the calls whose result tells of an error that nothing has resolved since."""
    fixed_parts: Sequence[tuple[str, int]] = ()
    """What the fixed tokens are made of: the system prompt and each tool's schema, with their tokens."""


class Strategy(Protocol):
    """Makes edits from a situation; pure, without I/O. It is called in a thread, beside the event loop.

    A strategy of your own may have a `name`, which receipts and explanations show; else its class's name is shown. What
    it raises costs its edits and no more; edits that break a rule of `ctxkit.invariants` are not applied.
    """

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that this strategy would make; empty where it sees nothing to do."""
        ...
