"""One digit off: a number that the sources have only elsewhere, while one that differs in a digit stands in its place."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from ctxkit.summary.verify.claims import Claim
from ctxkit.summary.verify.sources import Sources, is_near

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CLAIMED: Final = re.compile(rf"{_NUMBER.pattern}|{_GROUPED.pattern}")
_AROUND_CHARS: Final = 100
_LEAST_WORDS: Final = 2
"""So many words of a number's line must stand round its rival."""
_MANY: Final = 3
"""Among words, a rival must stand so many times as close as the number itself does."""
_BOUND: Final = 8
"""Counts as so many words: the noun behind a number, as in `398 tests`."""
_GLUED: Final = 9
"""Counts as so many words: what stands beside a number without a blank, as in `402:485` or `'308,320p'`."""
_QUOTED: Final = 10
"""Counts as so many words: the sentence goes on, or came to the number, as it does in the summary, letter by letter."""
_MOST_CHARS: Final = 20
_MOST_CLAIMS: Final = 400
_MOST_MENTIONS: Final = 4
"""A number that is told more often is a word like others; each place that is looked at costs a pass over its rivals."""
_BESIDE_CHARS: Final = 8
_SIDE_CHARS: Final = 24
"""So much of a line, or all of it up to its end, makes a quotation."""
_LINE_CHARS: Final = 4 * _SIDE_CHARS
_SIDE_LETTERS: Final = 8
"""Fewer letters (` euros.`) stand beside many a number."""
_BEFORE: Final = re.compile(r"[\w.\-]*[^\w\s`*][`'\"]?$")
_BEHIND: Final = re.compile(r"[^\w\s`*.;!?)][\w.\-]+")
_LABEL: Final = re.compile(r"\S{1,16}\w[\])]?[:=]$")
_NOUN: Final = re.compile(r"[^\W\d_]{3,}")
_BLANKS: Final = " \t\r\n`*"
_GAP_CHARS: Final = 8
_MARKUP: Final = str.maketrans("", "", "`*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What stands beside a number in a summary, in lower case; a side that says nothing is empty."""

    glued_before: str
    glued_behind: str
    label: str
    noun: str
    quoted_before: str
    quoted_behind: str


@dataclass(slots=True)
class _Seen:
    """How close a number stands to the words of a claim in the sources."""

    score: int = 0
    newest: int = -1
    """The last piece of the sources in which it stands before the same noun, or closer."""

    def take(self, score: int, at: int) -> None:
        """Take note of one more place."""
        self.score = max(score, self.score)
        if score >= _BOUND:
            self.newest = at

    def goes_before(self, own: "_Seen") -> bool:
        """Return whether a rival stands where the claim's own number should, and that is no newer."""
        if self.score < _LEAST_WORDS:
            return False
        if self.score >= _GLUED and own.score < self.score:
            return own.newest <= self.newest
        return self.score >= _MANY * own.score


async def rivals_of(found: Mapping[str, Sequence[Claim]], sources: Sources) -> dict[Claim, str]:
    """Return the numbers that stand in the sources where these claims should; of a number told twice, the first place.

    A claim is given up for its rival, which has as many digits and differs in one of them, only where the rival stands
    in the same words, between the same signs, or among words of its line, and the claim's own number never stands so
    close.

    Args:
        found: Texts of a summary, and each mention of a number or version in them that stands somewhere in the sources.
        sources: What they may come from.
    """
    beside = {claim: _beside(text, claim) for text, claims in found.items() for claim in _told(claims)}
    beside = dict(islice(beside.items(), _MOST_CLAIMS))
    wanted: dict[str, list[tuple[Claim, bool]]] = defaultdict(list)
    for claim in beside:
        for number in _written(claim):
            wanted[number].append((claim, True))
            for rival in _one_digit_off(number):
                wanted[rival].append((claim, False))
    own: dict[Claim, _Seen] = defaultdict(_Seen)
    rivals: dict[tuple[Claim, str], _Seen] = defaultdict(_Seen)
    if wanted:
        at = 0
        async for text, _ in sources.pieces():
            for match in chain(_NUMBER.finditer(text), _GROUPED.finditer(text)):
                for claim, is_own in wanted.get(match[0], ()):
                    score = _score(claim, beside[claim], text, match)
                    if score:
                        (own[claim] if is_own else rivals[claim, match[0]]).take(score, at)
            at += 1
    wrong: dict[tuple[str, str], Claim] = {}
    for (claim, number), seen in sorted(rivals.items(), key=lambda item: (item[0][0].stop, -item[1].score)):
        if seen.goes_before(own[claim]) and claim not in wrong.values():
            wrong.setdefault((claim.text, number), claim)
    return {claim: rival for (_, rival), claim in wrong.items()}


def _told(claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield the first mentions of numbers that may have rivals."""
    times: Counter[str] = Counter()
    for claim in claims:
        number = claim.keys[0]
        times[number] += 1
        if times[number] <= _MOST_MENTIONS and _CLAIMED.fullmatch(number) and len(number) <= _MOST_CHARS:
            yield claim


def _written(claim: Claim) -> tuple[str, ...]:
    """Return the ways in which a source may write a number: as it stands, without commas, with them."""
    plain = claim.keys[0].replace(",", "")
    grouped = f"{int(plain):,}" if plain.isdigit() and claim.kind == "number" else plain
    return tuple(dict.fromkeys((plain, grouped)))


def _score(claim: Claim, beside: _Beside, text: str, match: "re.Match[str]") -> int:
    """Return how much of a claim's surroundings stands round a number."""
    start, stop = match.span()
    if claim.near and not is_near(text, start, stop, claim.near):
        return 0
    if _is_quoted(beside, text, start, stop):
        return _QUOTED
    before, behind = beside.glued_before, beside.glued_behind
    if (before and text.endswith(before, 0, start)) or (behind and text.startswith(behind, stop)):
        return _GLUED
    if beside.noun and text[stop : stop + len(beside.noun) + 1].lstrip().startswith(beside.noun):
        return _BOUND
    around = text[max(0, start - _AROUND_CHARS) : stop + _AROUND_CHARS]
    is_labelled = beside.label and _flat(text[max(0, start - _SIDE_CHARS) : start]).endswith(beside.label)
    return max(_LEAST_WORDS * bool(is_labelled), min(_BOUND - 1, sum(word in around for word in claim.about)))


def _is_quoted(beside: _Beside, text: str, start: int, stop: int) -> bool:
    """Return whether a side of a number reads as it does in the summary, blanks and markup apart."""
    before, behind = beside.quoted_before, beside.quoted_behind
    # The one character that is next to the number tells most places.
    may_end = before and text[max(0, start - _GAP_CHARS) : start].rstrip(_BLANKS).endswith(before[-1])
    if may_end and _flat(text[max(0, start - 2 * _SIDE_CHARS) : start]).endswith(before):
        return True
    may_begin = behind and text[stop : stop + _GAP_CHARS].lstrip(_BLANKS).startswith(behind[0])
    return bool(may_begin) and _flat(text[stop : stop + 2 * _SIDE_CHARS]).startswith(behind)


def _beside(text: str, claim: Claim) -> _Beside:
    """Return what stands beside a number in a summary: without a blank, of lone quotes nothing; and in its line."""
    first = claim.stop - len(claim.text)
    glued_before = _BEFORE.search(text[max(0, first - _BESIDE_CHARS) : first])
    glued_behind = _BEHIND.match(text[claim.stop : claim.stop + _BESIDE_CHARS])
    start = first + max(0, claim.text.lower().find(claim.keys[0]))
    stop = start + len(claim.keys[0])
    before = _flat(text[max(0, start - _LINE_CHARS) : start].rpartition("\n")[2].lower())
    behind = _flat(text[stop : stop + _LINE_CHARS].partition("\n")[0].lower())
    label, noun = _LABEL.search(before), _NOUN.match(behind)
    return _Beside(
        label=label[0] if label else "",
        noun=noun[0] if noun else "",
        glued_before=glued_before[0].lower() if glued_before and len(glued_before[0]) > _LEAST_WORDS else "",
        glued_behind=glued_behind[0].lower() if glued_behind and len(glued_behind[0]) > _LEAST_WORDS else "",
        quoted_before=_telling(before[-_SIDE_CHARS:]),
        quoted_behind=_telling(behind[:_SIDE_CHARS]),
    )


def _flat(text: str) -> str:
    """Return a text without markup, its blanks and line ends single."""
    return " ".join(text.translate(_MARKUP).split())


def _telling(side: str) -> str:
    """Return a side with enough letters to be told from others, else nothing."""
    return side if sum(map(str.isalpha, side)) >= _SIDE_LETTERS else ""


def _one_digit_off(number: str) -> list[str]:
    return [
        f"{number[:at]}{digit}{number[at + 1 :]}"
        for at, old in enumerate(number)
        if old.isdigit()
        for digit in "0123456789"
        if digit != old
    ]
