"""Graphemes: where a text may be cut without parting what people see as one character.

The rules follow Unicode's UAX 29 as far as the standard library has the data: line ends, combining marks, joiners,
variation selectors, skin tones, tags, flags, Hangul syllables, conjuncts of Indic scripts, and surrogates that lost
their encoding.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_REACH: Final = 64
"""Most characters that a cut is moved; what is longer than that is no character that anyone reads."""
_FLAGS_REACH: Final = 4096
"""Most flag letters counted back; more are not written in a row."""
_ZWJ: Final = "\u200d"
_VIRAMA: Final = 9
"""Canonical combining class of the signs that bind consonants (UCD, field 3)."""


def floor_cut(text: str, cut: int) -> int:
    """Return the last place at or before `cut` where the text may be cut, in `[0, len(text)]`."""
    for place in range(cut, max(cut - _REACH, 0), -1):
        if is_boundary(text, place):
            return place
    return 0 if cut <= _REACH else cut


def ceil_cut(text: str, cut: int) -> int:
    """Return the first place at or after `cut` where the text may be cut, in `[0, len(text)]`."""
    for place in range(cut, min(cut + _REACH, len(text))):
        if is_boundary(text, place):
            return place
    return len(text) if cut + _REACH >= len(text) else cut


def is_boundary(text: str, place: int) -> bool:  # noqa: PLR0911 - one a rule
    """Tell whether no grapheme goes across a place, an index in `[0, len(text)]`."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if before < "\x7f" and after < "\x7f":
        return not (before == "\r" and after == "\n")
    if _is_extending(after) or before == _ZWJ or _is_prepended(before):
        return False
    if _is_surrogate(before, "\ud800") and _is_surrogate(after, "\udc00"):
        return False
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, place) % 2 == 0
    if unicodedata.combining(before) == _VIRAMA and unicodedata.category(after) == "Lo":
        return False
    return not _is_one_syllable(before, after)


def _is_extending(char: str) -> bool:
    """Tell whether a character belongs to the one before it: marks, joiners, skin tones, tags."""
    if unicodedata.category(char) in {"Mn", "Me", "Mc"}:
        return True
    return (
        char in "\u200c\u200d\uff9e\uff9f"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _is_prepended(char: str) -> bool:
    """Tell whether a character belongs to the one after it (Arabic number signs and their like)."""
    return "\u0600" <= char <= "\u0605" or char in "\u06dd\u070f\u08e2\U000110bd\U000110cd"


def _is_surrogate(char: str, first: str) -> bool:
    """Tell whether a character is one of the 1,024 surrogates from `first` on."""
    return ord(first) <= ord(char) < ord(first) + 0x400


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    """Return how many flag letters stand right before a place; 4,096, an even number, at most."""
    start = place
    while start > 0 and place - start < _FLAGS_REACH and _is_flag_letter(text[start - 1]):
        start -= 1
    return place - start


def _is_one_syllable(before: str, after: str) -> bool:
    """Tell whether two Hangul parts make one syllable."""
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb":
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7fb"
    return "\u1100" <= before <= "\u115f" and ("\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3")
