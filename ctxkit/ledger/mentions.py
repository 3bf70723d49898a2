"""Mentions in the making: how often and when each identifier was named, and which of them are worth a place."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from itertools import repeat
from operator import add
from typing import Final

from ctxkit.ledger.entries import Mention
from ctxkit.ledger.facts import Facts
from ctxkit.ledger.ranking import best_first, scores

MOST_IDENTIFIERS: Final = 4000
"""A ledger has no more; what ranks lowest is left out."""

_PAUSE_NAMES: Final = 4000


class Mentions:
    """The identifiers of a ledger in the making.

    Args:
        base: What is known already.
    """

    def __init__(self, base: Mapping[str, Mention]) -> None:
        # Numbers by name and no object a name: tens of thousands of those would have the garbage collector run.
        self._used = Counter({name: mention.used for name, mention in base.items()})
        self._others = Counter({name: mention.blocks - mention.used for name, mention in base.items()})
        self._newest = {name: mention.newest for name, mention in base.items()}
        self._lines = {name: mention.line for name, mention in base.items() if mention.line}

    def take(self, facts: Facts, step: int) -> None:
        """Take what one more block names.

        Args:
            facts: The block's facts.
            step: Its number in the ledger.
        """
        counts = self._used if facts.speaker == "assistant" else self._others
        counts.update(facts.identifiers)
        self._newest.update(dict.fromkeys(facts.identifiers, step))
        self._lines.update(facts.lines)

    def take_later(self, later: Mapping[str, Mention], since: int) -> None:
        """Take what another ledger knows, all of which is newer.

        Args:
            later: Its identifiers.
            since: Blocks before its first one.
        """
        for name, mention in later.items():
            self._used[name] += mention.used
            self._others[name] += mention.blocks - mention.used
            self._newest[name] = since + mention.newest
            if mention.line:
                self._lines[name] = mention.line

    def finish(self, step: int) -> Generator[None, None, dict[str, Mention]]:
        """Return the mentions that are worth a place, and stop after each piece of work.

        Args:
            step: Blocks in the ledger.
        """
        names = list(self._newest)
        if len(names) > MOST_IDENTIFIERS:
            ranks: list[float] = []
            for start in range(0, len(names), _PAUSE_NAMES):
                some = names[start : start + _PAUSE_NAMES]
                ranks += scores(some, *self._counted(some), step=step)
                yield
            # Bare numbers sort many times faster than names: they tell the least score that can have a place.
            least = sorted(ranks)[-MOST_IDENTIFIERS]
            yield
            best = {name: rank for name, rank in zip(names, ranks, strict=True) if rank >= least}
            names = best_first(best)[:MOST_IDENTIFIERS]
            yield
        lines = map(self._lines.get, names, repeat(""))
        return dict(zip(names, map(Mention, *self._counted(names), lines), strict=True))

    def _counted(self, names: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """Return the blocks that name each identifier, those of the assistant among them, and the newest one's step."""
        used = list(map(self._used.get, names, repeat(0)))
        blocks = list(map(add, map(self._others.get, names, repeat(0)), used))
        return blocks, used, list(map(self._newest.__getitem__, names))
