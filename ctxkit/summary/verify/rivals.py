"""One digit off: a number that the sources have only elsewhere, while one that differs in a digit stands among its words."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ctxkit.summary.verify.claims import Claim
from ctxkit.summary.verify.sources import Sources, is_near

_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_AROUND_CHARS: Final = 100
_LEAST_WORDS: Final = 2
"""So many words of a number's line must stand round its rival, and none round itself."""
_MOST_CHARS: Final = 20


async def rivals_of(claims: Sequence[Claim], sources: Sources) -> dict[Claim, str]:
    """Return the numbers that stand in the sources where these claims should.

    A claim is given up for its rival only where its own number never stands near a word of its line, and the rival, which
    has as many digits and differs in one of them, stands among at least two.

    Args:
        claims: Numbers and versions that stand somewhere in the sources.
        sources: What they may come from.
    """
    wanted: dict[str, list[tuple[Claim, bool]]] = defaultdict(list)
    for claim in claims:
        number = claim.keys[0]
        if len(claim.about) >= _LEAST_WORDS and number[0].isdigit() and len(number) <= _MOST_CHARS:
            wanted[number].append((claim, True))
            for rival in _one_digit_off(number):
                wanted[rival].append((claim, False))
    own: set[Claim] = set()
    found: dict[Claim, tuple[int, str]] = {}
    if wanted:
        async for text, _ in sources.pieces():
            for match in _NUMBER.finditer(text):
                for claim, is_own in wanted.get(match[0], ()):
                    if claim.near and not is_near(text, match.start(), match.end(), claim.near):
                        continue
                    around = text[max(0, match.start() - _AROUND_CHARS) : match.end() + _AROUND_CHARS]
                    words = sum(word in around for word in claim.about)
                    if is_own and words:
                        own.add(claim)
                    elif words > found.get(claim, (_LEAST_WORDS - 1, ""))[0]:
                        found[claim] = (words, match[0])
    return {claim: rival for claim, (_, rival) in found.items() if claim not in own}


def _one_digit_off(number: str) -> list[str]:
    return [
        f"{number[:at]}{digit}{number[at + 1 :]}"
        for at, old in enumerate(number)
        if old.isdigit()
        for digit in "0123456789"
        if digit != old
    ]
