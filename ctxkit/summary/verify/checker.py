"""The check of one summary in the making: its sources are gathered once, and what it refuses is counted."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ctxkit.ledger import Count, Ledger
from ctxkit.plan import Checked
from ctxkit.summary.answer import check_fields
from ctxkit.summary.verify.check import verify_fields
from ctxkit.summary.verify.kept import Fact, facts_to_keep
from ctxkit.summary.verify.sources import Sources

if TYPE_CHECKING:
    from agentscope.message import Msg

_ROOM_PARTS: Final = 4
"""What must be kept may add a quarter of what a summary may have."""
_MOST_PARTS: Final = 2
"""With marks and what the record shows, a summary has at most twice its tokens."""


class Checker:
    """Checks the answers that one summary is made of.

    Args:
        messages: What is summarised, oldest first.
        context: All that the model saw, what is summarised among it; empty where nothing else is known. Then no facts are
            added, for whoever asks for a summary of bare messages has them still.
        ledger: Facts of what was compressed before.
        previous: The summary before this one.
        pins: What somebody wants kept for ever.
        schema: The JSON schema of the fields.
        max_tokens: Most tokens of the fields as the model gives them.
        count: Returns the tokens of a text.
    """

    def __init__(
        self,
        messages: "Sequence[Msg]",
        *,
        context: "Sequence[Msg]",
        ledger: Ledger,
        previous: str,
        pins: Sequence[str],
        schema: Mapping[str, Any],
        max_tokens: int,
        count: Count,
    ) -> None:
        self.found: Checked | None = None
        """What the check of the accepted summary found; None where none was accepted."""
        self.refused = 0
        """Summaries that were refused."""
        self._messages = messages
        self._context = context
        self._ledger = ledger
        self._previous = previous
        self._pins = pins
        self._schema = schema
        self._max_tokens = max_tokens
        self._count = count
        self._known: tuple[Sources, list[Fact]] | None = None

    async def accept(self, fields: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """Return the fields marked, corrected and completed, or why they cannot be used."""
        sources, facts = await self._sources()
        verified = await verify_fields(
            fields, sources, facts, room_tokens=self._max_tokens // _ROOM_PARTS, count=self._count
        )
        if not verified.is_usable:
            self.refused += 1
            return f"{' '.join(verified.problems)} Name only what the conversation has, letter by letter."
        whole = await check_fields(
            verified.fields, self._schema, max_tokens=_MOST_PARTS * self._max_tokens, count=self._count
        )
        # A schema of one's own may leave no room for marks; then the fields stay as they were, and what was found is told.
        is_marked = not isinstance(whole, str)
        self.found = Checked(
            claims=verified.claims,
            added=verified.added if is_marked else (),
            unverified=verified.unverified,
            corrected=verified.corrected,
            reported=verified.reported,
            refused=self.refused,
        )
        return verified.fields if is_marked else fields

    async def _sources(self) -> tuple[Sources, list[Fact]]:
        if self._known is None:
            seen = self._context or self._messages
            sources = await Sources.of(seen, ledger=self._ledger, previous=self._previous)
            facts: list[Fact] = []
            if self._context:
                gone = {message.id for message in self._messages}
                stays = [message for message in self._context if message.id not in gone]
                facts = facts_to_keep(self._messages, sources.ledger, stays=stays, pins=self._pins)
            self._known = (sources, facts)
        return self._known
