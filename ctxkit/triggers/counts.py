"""Messages and turns of a context, as its blocks come in: what the triggers by count look at."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many messages and turns there are.

    Messages are counted as a provider's format has them: what the assistant says at once, with its calls, is one, each
    result is one, each hint, and each message of a user. A reply of AgentScope is one message of its own, whatever it did.
    """

    messages: int = 0
    turns: int = 0
    """Turns, each from one message of the user, or several at once, to the next."""
    _last_id: str = ""
    _last_kind: str = ""

    def after(self, kind: str, *, role: str, message_id: str) -> Tally:
        """Return the counts with one more block.

        Args:
            kind: The block's type.
            role: Who wrote its message.
            message_id: The message's id.
        """
        begins = message_id != self._last_id
        if role == "user":
            said, last_kind = int(begins), "user"
            turns = int(begins and self._last_kind != "user")
        else:
            apart = kind in {"tool_result", "hint"}
            said = int(begins or apart or self._last_kind in {"tool_result", "hint"})
            last_kind, turns = kind, 0
        return replace(
            self,
            messages=self.messages + said,
            turns=self.turns + turns,
            _last_id=message_id,
            _last_kind=last_kind,
        )
