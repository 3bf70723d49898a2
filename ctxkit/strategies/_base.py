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


class Strategy(Protocol):
    """Makes edits from a situation; pure, without I/O, never raising."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return the edits that this strategy would make; empty where it sees nothing to do."""
        ...
