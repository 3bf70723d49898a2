"""When no automatic compression is tried, though one would be due: after edits, after failures, for some turns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What holds the next automatic compression back; none of it does where the request would not fit."""

    until_tokens: int = 0
    """Below so many tokens none is tried."""
    turns: int | None = None
    """Turns that have begun since the last compression; `None` where there was none."""
    quiet_turns: int = 0
    """For so many turns none is tried at all, since somebody took the last one back."""
    failures: int = 0
    """Failures in a row."""

    def why(self, tokens: int, *, limit_tokens: int, safe_tokens: int, cooldown_turns: int) -> str | None:
        """Return why no compression is tried now, in words; `None` where nothing holds it back.

        Args:
            tokens: Tokens of the next request.
            limit_tokens: Tokens that it may have; from there on nothing is held back.
            safe_tokens: Tokens up to which the next step still fits; from there on no turns are waited for.
            cooldown_turns: So many turns behind a compression none is tried.
        """
        if tokens < min(self.until_tokens, limit_tokens):
            return f"{tokens:,} tokens, and the last try said to wait until {self.until_tokens:,}"
        if self.turns is None or tokens >= safe_tokens:
            return None
        if self.is_quiet:
            return f"the last compression was taken back {self.turns} turns ago; {self.quiet_turns} go without one"
        if cooldown_turns > 0 and self.turns <= cooldown_turns:
            return f"the last compression was {self.turns} turns ago; {cooldown_turns} go without one"
        return None

    @property
    def is_quiet(self) -> bool:
        """Whether the last compression was taken back, and the turns that go without one are not over."""
        return self.turns is not None and self.turns < self.quiet_turns

    def after_turn(self) -> Rest:
        """Return what holds when a new turn has begun."""
        return self if self.turns is None else replace(self, turns=self.turns + 1)

    def after_edit(self, *, until_tokens: int) -> Rest:
        """Return what holds after a compression that was applied."""
        return Rest(until_tokens=until_tokens, turns=0)

    def after_failure(self, *, until_tokens: int) -> Rest:
        """Return what holds after a compression that failed."""
        return replace(self, until_tokens=until_tokens, failures=self.failures + 1)

    def after_undo(self, turns: int) -> Rest:
        """Return what holds after a compression was taken back, for so many turns that begin from now on."""
        return Rest(turns=0, quiet_turns=turns)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Rest:
        """Return what `to_json` wrote; of anything else, that nothing is held back."""
        if not isinstance(data, dict) or data.keys() != asdict(cls()).keys():
            return cls()
        return cls(**data) if all(map(_is_sane, data.items())) else cls()


def _is_sane(item: tuple[str, Any]) -> bool:
    name, value = item
    return (value is None and name == "turns") or (type(value) is int and value >= 0)
