"""A cut never parts what people see as one character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import ceil_cut, floor_cut
from ctxkit.tokens.grapheme import is_boundary

WHOLE = {
    "line end": "\r\n",
    "combining accent": "e\u0301",
    "several marks": "a\u0301\u0323\u0328",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "skin tone": "\U0001f44d\U0001f3fd",
    "variation selector": "\u2764\ufe0f",
    "keycap": "1\ufe0f\u20e3",
    "flag": "\U0001f1e9\U0001f1ea",
    "flag of tags": "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "Hangul parts": "\u1112\u1161\u11ab",
    "Devanagari conjunct": "\u0915\u094d\u0937",
    "vowel sign": "\u0915\u093f",
    "lost surrogates": "\ud83d\ude00",
    "Arabic number sign": "\u0600\u0661",
}


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_a_cut_inside_is_moved_to_the_nearest_edge(whole: str) -> None:
    text = f"x{whole}y"

    for inside in range(2, len(whole) + 1):
        assert (floor_cut(text, inside), ceil_cut(text, inside)) == (1, len(whole) + 1)


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_a_cut_between_stays_where_it_is(whole: str) -> None:
    text = whole + whole

    assert floor_cut(text, len(whole)) == ceil_cut(text, len(whole)) == len(whole)


def test_flags_in_a_row_are_parted_between_flags_only() -> None:
    flags = "\U0001f1e9\U0001f1ea" * 40

    assert [place for place in range(1, len(flags)) if is_boundary(flags, place)] == list(range(2, len(flags), 2))


def test_a_mark_without_end_is_cut_somewhere() -> None:
    text = "a" + "\u0301" * 1000

    assert (floor_cut(text, 500), ceil_cut(text, 500)) == (500, 500)
    assert (floor_cut(text, 20), ceil_cut(text, 990)) == (0, 1001)


@given(st.text(max_size=40), st.integers(0, 40))
def test_cuts_are_boundaries_on_both_sides(text: str, cut: int) -> None:
    cut = min(cut, len(text))

    assert 0 <= floor_cut(text, cut) <= cut <= ceil_cut(text, cut) <= len(text)
    assert is_boundary(text, floor_cut(text, cut))
    assert is_boundary(text, ceil_cut(text, cut))
