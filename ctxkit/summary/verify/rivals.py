"""One digit off: a number that the sources have only elsewhere, while one that differs in a digit stands in its place."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ctxkit.summary.verify.claims import Claim
from ctxkit.summary.verify.sources import Sources, is_near

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_AROUND_CHARS: Final = 100
_LEAST_WORDS: Final = 2
"""So many words of a number's line must stand round its rival, and none round itself."""
_GLUED: Final = 9
"""Counts as so many words: what stands beside a number without a blank, as in `402:485` or `'308,320p'`."""
_MOST_CHARS: Final = 20
_BESIDE_CHARS: Final = 8
_BEFORE: Final = re.compile(r"[\w.\-]*[^\w\s`*][`'\"]?$")
_BEHIND: Final = re.compile(r"[^\w\s`*.;!?)][\w.\-]+")


async def rivals_of(found: Mapping[str, Sequence[Claim]], sources: Sources) -> dict[Claim, str]:
    """Return the numbers that stand in the sources where these claims should.

    A claim is given up for its rival, which has as many digits and differs in one of them, only where the rival stands
    among at least two words of its line, or between the same signs, and the claim's own number never does.

    Args:
        found: Texts of a summary, and numbers and versions in them that stand somewhere in the sources.
        sources: What they may come from.
    """
    wanted: dict[str, list[tuple[Claim, bool]]] = defaultdict(list)
    glue: dict[Claim, tuple[str, str]] = {}
    for text, claims in found.items():
        for claim in claims:
            number = claim.keys[0]
            if _NUMBER.fullmatch(number) and len(number) <= _MOST_CHARS:
                glue[claim] = _glue_of(text, claim)
                wanted[number].append((claim, True))
                for rival in _one_digit_off(number):
                    wanted[rival].append((claim, False))
    own: dict[Claim, int] = {}
    rivals: dict[Claim, tuple[int, str]] = {}
    if wanted:
        async for text, _ in sources.pieces():
            for match in _NUMBER.finditer(text):
                for claim, is_own in wanted.get(match[0], ()):
                    score = _score(claim, glue[claim], text, match)
                    if is_own:
                        own[claim] = max(own.get(claim, 0), score)
                    elif score > rivals.get(claim, (_LEAST_WORDS - 1, ""))[0]:
                        rivals[claim] = (score, match[0])
    return {
        claim: rival
        for claim, (score, rival) in rivals.items()
        if own.get(claim, 0) == 0 or (score >= _GLUED and own[claim] < _GLUED)
    }


def _score(claim: Claim, glue: tuple[str, str], text: str, match: "re.Match[str]") -> int:
    """Return how much of a claim's surroundings stands round a number."""
    start, stop = match.span()
    if claim.near and not is_near(text, start, stop, claim.near):
        return 0
    before, behind = glue
    if (before and text.endswith(before, 0, start)) or (behind and text.startswith(behind, stop)):
        return _GLUED
    around = text[max(0, start - _AROUND_CHARS) : stop + _AROUND_CHARS]
    return min(_GLUED - 1, sum(word in around for word in claim.about))


def _glue_of(text: str, claim: Claim) -> tuple[str, str]:
    """Return what stands before and behind a number without a blank, in lower case; of lone quotes nothing."""
    start = claim.stop - len(claim.text)
    before = _BEFORE.search(text[max(0, start - _BESIDE_CHARS) : start])
    behind = _BEHIND.match(text[claim.stop : claim.stop + _BESIDE_CHARS])
    return (
        before[0].lower() if before and len(before[0]) > _LEAST_WORDS else "",
        behind[0].lower() if behind and len(behind[0]) > _LEAST_WORDS else "",
    )


def _one_digit_off(number: str) -> list[str]:
    return [
        f"{number[:at]}{digit}{number[at + 1 :]}"
        for at, old in enumerate(number)
        if old.isdigit()
        for digit in "0123456789"
        if digit != old
    ]
