"""All that is remembered of one agent between its steps, and over restarts, to say when a compression is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ctxkit.triggers.edits import PastEdits
from ctxkit.triggers.growth import Growth
from ctxkit.triggers.rest import Rest

_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How an agent's context grows, what its edits cost, and what holds the next one back."""

    growth: Growth = field(default_factory=Growth)
    edits: PastEdits = field(default_factory=PastEdits)
    rest: Rest = field(default_factory=Rest)
    reply_id: str = ""
    """The reply that was looked at last; another one is a new turn."""
    seen_at: float | None = None
    """Seconds since the epoch of the last look; `None` before the first."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, well under a kilobyte."""
        return {
            "version": _VERSION,
            "growth": self.growth.to_json(),
            "edits": self.edits.to_json(),
            "rest": self.rest.to_json(),
            "reply_id": self.reply_id,
            "seen_at": self.seen_at,
        }

    @classmethod
    def from_json(cls, data: object) -> Habits:
        """Return what `to_json` wrote; parts that cannot be read are as at the beginning."""
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            return cls()
        reply_id, seen_at = data.get("reply_id"), data.get("seen_at")
        return cls(
            growth=Growth.from_json(data.get("growth")),
            edits=PastEdits.from_json(data.get("edits")),
            rest=Rest.from_json(data.get("rest")),
            reply_id=reply_id if isinstance(reply_id, str) else "",
            seen_at=seen_at if isinstance(seen_at, int | float) and isfinite(seen_at) else None,
        )
