"""What is about to be done to a context: everything is stored and made, and nothing is changed yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.engine.layer import Layer
    from ctxkit.plan import Draft, Edit
    from ctxkit.summary import SummaryState


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A change that waits for its swap."""

    edits: tuple[Edit, ...] = ()
    """With the references of the stored originals."""
    context: Sequence[Msg] | None = None
    """The messages as they will be; `None` where nothing is to be done."""
    tokens_after: int
    """Tokens of the whole request as it will be, measured."""
    stable_tokens: int = 0
    """Tokens at the request's beginning that stay as they are."""
    shortened: int = 0
    """How many blocks stand there otherwise than before."""
    is_complete: bool = True
    """No edit was given up because its original could not be stored."""
    layer: Layer | None = None
    """The new summary layer; `None` leaves the one that is there."""
    learnt: SummaryState | None = None
    """Where the layer stays: what it is made of, with the facts of what is cleared."""
    draft: Draft | None = None
    """The summary in the new layer."""
    reference: str | None = None
    """Where what leaves is stored."""
    awaits: tuple[str, ...] = ()
    """The plans of which memory is to write a summary that comes into the layer later; where the layer changes."""
    broken: tuple[str, ...] = ()
    """The rules that the change would break, which is why it will not be made."""
    why: str = ""
    """Why this is done, or why nothing is."""

    @property
    def rules(self) -> tuple[str, ...]:
        """The strategies that have a part in it."""
        return tuple(dict.fromkeys(edit.rule for edit in self.edits if edit.rule))
