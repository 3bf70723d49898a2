"""In which order what is done to make room, cheapest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ctxkit.config.checks import one_of, refuse, whole

SUMMARY_RUNG: Final = "summarize"
"""The rung that takes the oldest messages into the summary."""
KNOWN_RUNGS: Final = (
    "deduplicate",
    "shrink",
    "clear_results",
    "clear_thinking",
    "clear_arguments",
    "drop_turns",
    "turn_texts",
    SUMMARY_RUNG,
)
"""The rungs by name; whatever rungs there are, what is oversized is cut and the last step alone kept where nothing fits."""

LOSSLESS_RUNGS: Final = ("deduplicate", "shrink", SUMMARY_RUNG)
"""The default where no price decides: what is still of use stays to be read until a summary takes it."""
PRICED_RUNGS: Final = (
    "deduplicate",
    "shrink",
    "clear_results",
    "clear_thinking",
    "clear_arguments",
    SUMMARY_RUNG,
)
"""The default where prices decide: what is old costs a read at every step, and clearing it asks no model."""

_MOST_CHUNKS: Final = 16


@dataclass(frozen=True, kw_only=True)
class LadderConfig:
    """In which order what is done to make room, cheapest first; the first rung that makes enough of it ends the climb."""

    strategy: Literal["summarize", "truncate"] = "summarize"
    """What becomes of the oldest messages on the last rung: a summary, or a line that says that they were truncated."""
    rungs: Sequence[object] | None = None
    """Names of rungs, and own strategies (objects with `plan_edits`), in the order in which they are tried.

    `None` goes by what makes a compression due: `PRICED_RUNGS` where it is the prices of mode `balanced` or `cost`, and
    `LOSSLESS_RUNGS` by a ratio, a count or a mode without prices, and where somebody asks for one.
    """
    keep_results: int = 3
    """So many of the newest tool results are never cleared, at least 0."""
    keep_messages: int | None = None
    """So many of the newest messages (as a provider's format has them) stay on the last rung; `None` goes by `chunks`."""
    chunks: int | None = None
    """On the last rung the messages are so many chunks of equal weight, of which the oldest leaves, once and again until the
    rest is within the history's share of the window (`WindowConfig.history_ratio`), 2 to 16; `None` goes by `reserve_ratio`."""
    texts_below_turns: int | None = None
    """Rung `turn_texts` is climbed below so many complete turns, and `drop_turns` from so many on; `None` climbs both."""

    def __post_init__(self) -> None:
        one_of(self, "strategy", ("summarize", "truncate"))
        if self.rungs is not None:
            object.__setattr__(self, "rungs", self._checked(self.rungs))
        whole(self, "keep_results", least=0)
        if self.keep_messages is not None:
            whole(self, "keep_messages", least=0)
        if self.chunks is not None:
            whole(self, "chunks", least=2)
            if self.chunks > _MOST_CHUNKS:
                refuse(self, "chunks", self.chunks, f"give at most {_MOST_CHUNKS}, or little leaves at a time")
        if self.texts_below_turns is not None:
            whole(self, "texts_below_turns", least=1)

    def rungs_where(self, *, is_priced: bool) -> tuple[object, ...]:
        """Return the rungs of one climb.

        Args:
            is_priced: Whether it is due because prices say so.
        """
        if self.rungs is not None:
            return tuple(self.rungs)
        return PRICED_RUNGS if is_priced else LOSSLESS_RUNGS

    def _checked(self, rungs: Sequence[object]) -> tuple[object, ...]:
        known = ", ".join(KNOWN_RUNGS)
        if isinstance(rungs, str) or not isinstance(rungs, Sequence):
            refuse(self, "rungs", rungs, f"give a sequence of names among {known}, or of strategies")
        if not rungs:
            refuse(self, "rungs", rungs, f"name at least one rung among {known}, or leave it at None for the default")
        for place, rung in enumerate(rungs):
            if rung not in KNOWN_RUNGS and not callable(getattr(rung, "plan_edits", None)):
                refuse(self, "rungs", rung, f"give one of {known}, or an object with a method plan_edits")
            if any(rung is other or (isinstance(rung, str) and rung == other) for other in rungs[:place]):
                refuse(self, "rungs", rung, "name each rung once: on a second try it finds nothing more to do")
        return tuple(rungs)
