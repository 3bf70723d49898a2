"""The same key, another number: where the record gives one value of a key and a summary another, the record is quoted."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from ctxkit.summary.verify.claims import Claim
from ctxkit.summary.verify.sources import Sources

_KEY: Final = re.compile(
    r"([A-Za-z_][\w\-]{2,40})[`'\"*]*\s*(?:[:=#→(]|->|\b(?:is|was|of|to|at|set to|equals)\b)?\s*[`'\"*$€£#v(]*$"
)
_VALUE: Final = r"[`'\"*]*\s*(?:[:=#(]|->|\b(?:is|was|of|to|at|set to|equals)\b)?\s*[`'\"*$€£#v(]*(\d[\d,]*(?:\.\d+)*)"
_COMMON: Final = frozenset(
    """the and for with from into than then that this line lines page pages about around over under are has have had
    was were its all any out but not least most more less only just line step part phase until since between through
    after before exit code added add adds plus per via""".split()
)
"""Words before a number that are no name of it."""
_ID: Final = re.compile(r"\d\d")
"""Of an id, which stands before numbers in lists and is no name of theirs."""
_FEW: Final = range(1, 3)
"""A key with more numbers than that is the name of a kind, and the next one may have another."""
_KEY_CHARS: Final = 64
_BETWEEN: Final = 16
"""At most so many characters stand between a key and its number in a source."""


def keyed_claims(text: str, claims: Sequence[Claim]) -> dict[Claim, str]:
    """Return the key that stands before each number or version of a text that has one, in lower case."""
    keyed = {}
    for claim in claims:
        if claim.kind in {"number", "version"} and (claim.text[0].isdigit() or claim.text[0] in "v$€£"):
            start = claim.stop - len(claim.text)
            match = _KEY.search(text[max(0, start - _KEY_CHARS) : start])
            if match and match[1].lower() not in _COMMON and not _ID.search(match[1]):
                keyed[claim] = match[1].lower()
    return keyed


async def numbers_against(keyed: dict[Claim, str], sources: Sources) -> dict[Claim, str]:
    """Return what the record shows for each of these claims whose key has another number there, and never this one.

    Args:
        keyed: Claims and their keys.
        sources: What the record and all others say; a number that any of them gives for the key is left alone.
    """
    wrong: dict[Claim, str] = {}
    recorded: dict[str, set[str]] = {}
    lines = [line.lower() for line in sources.lines]
    for key in dict.fromkeys(keyed.values()):
        recorded[key] = _recorded(key, lines)
        await asyncio.sleep(0)
    for claim, key in keyed.items():
        values = recorded[key]
        if len(values) in _FEW and values.isdisjoint(claim.keys):
            wrong[claim] = f"{key} {' or '.join(sorted(values))}"
    patterns = {
        claim: [
            re.compile(rf"{re.escape(keyed[claim])}\D{{0,{_BETWEEN}}}{re.escape(key)}(?![\d])") for key in claim.keys
        ]
        for claim in wrong
    }
    async with aclosing(sources.pieces()) as pieces:
        async for text, _ in pieces:
            for claim, tried in list(patterns.items()):
                if any(pattern.search(text) for pattern in tried):
                    del patterns[claim], wrong[claim]
            if not wrong:
                break
    return wrong


def _recorded(key: str, lines: Sequence[str]) -> set[str]:
    """Return the numbers that the record's lines give for a key; all of it in lower case."""
    pattern = re.compile(rf"(?<![\w\-]){re.escape(key)}{_VALUE}")
    found = (match[1] for line in lines if key in line for match in pattern.finditer(line))
    return {number.rstrip(",").replace(",", "") for number in found}
