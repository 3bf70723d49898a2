"""Take out of tool results what says nothing: escape codes, old states of progress bars, blank lines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ctxkit.plan import Edit, EditKind
from ctxkit.results import shrink
from ctxkit.strategies.settled import settled, text_of_result

if TYPE_CHECKING:
    from ctxkit.strategies._base import Situation

_LEAST_TOKENS: Final = 16
"""A gain below this is not worth the record of the original."""


@dataclass(frozen=True)
class ShrinkStrategy:
    """Shrinks tool results without a loss of meaning.

    What an editor will match, the tools of `ResultsConfig.verbatim_tools` and diffs, stays as it is.
    """

    name: str = field(default="shrink", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each result that can be said in fewer characters."""
        edits = []
        verbatim = situation.settings.results.verbatim_tools
        for one in settled(situation, unseen=True):
            place, text = one.result_place, text_of_result(one.result)
            stood = situation.tokens[place.message][place.block]
            if not text or stood <= _LEAST_TOKENS:
                continue
            short = shrink(text, tool_name=one.result.name, verbatim=one.result.name in verbatim)
            keep = math.ceil(stood * len(short) / len(text))
            if stood - keep >= _LEAST_TOKENS:
                edits.append(
                    Edit(
                        kind=EditKind.SHRINK,
                        message=place.message,
                        message_id=situation.view.messages[place.message].id,
                        start=place.block,
                        stop=place.block + 1,
                        tokens=round(stood),
                        keep_tokens=keep,
                        rule=self.name,
                        text=short,
                    )
                )
        return tuple(edits)
