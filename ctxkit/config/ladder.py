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


@dataclass(frozen=True, kw_only=True)
class LadderConfig:
    """In which order what is done to make room, cheapest first; the first rung that makes enough of it ends the climb."""

    strategy: Literal["summarize", "truncate"] = "summarize"
    """What becomes of the oldest messages on the last rung: a summary, or a line that says that they were truncated."""
    rungs: Sequence[object] = ("deduplicate", "shrink", "summarize")
    """Names of rungs, and own strategies (objects with `plan_edits`), in the order in which they are tried.

    By default those that lose nothing: on recorded runs (benchmarks/recall.py) clearing results and arguments as well kept
    85.1% of the identifiers that are used again live, not 89.6%, and took 1.4% more input tokens.
    """
    keep_results: int = 3
    """So many of the newest tool results are never cleared, at least 0."""
    keep_messages: int | None = None
    """So many of the newest messages (as a provider's format has them) stay on the last rung; `None` goes by `reserve_ratio`."""

    def __post_init__(self) -> None:
        one_of(self, "strategy", ("summarize", "truncate"))
        if isinstance(self.rungs, str) or not isinstance(self.rungs, Sequence):
            refuse(
                self, "rungs", self.rungs, f"give a sequence of names among {', '.join(KNOWN_RUNGS)}, or of strategies"
            )
        for rung in self.rungs:
            if rung not in KNOWN_RUNGS and not callable(getattr(rung, "plan_edits", None)):
                refuse(
                    self, "rungs", rung, f"give one of {', '.join(KNOWN_RUNGS)}, or an object with a method plan_edits"
                )
        object.__setattr__(self, "rungs", tuple(self.rungs))
        whole(self, "keep_results", least=0)
        if self.keep_messages is not None:
            whole(self, "keep_messages", least=0)
