"""Content classes are told by looks, at a cost that does not grow with the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import ContentClass, classify
from tests.unit.tokens.samples import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chars", [400, 8000, 100_000])
def test_a_text_of_a_known_kind_gets_its_class_at_any_length(kind: str, chars: int) -> None:
    make, expected = KINDS[kind]

    assert classify(make(1, chars)) == expected


def test_a_piece_from_the_middle_of_json_is_json() -> None:
    make, _ = KINDS["json"]

    assert classify(make(1, 50_000)[20_000:28_000]) == ContentClass.JSON


def test_minified_json_is_json() -> None:
    assert classify('{"id":1,"name":"beta","tags":["a","b"],"score":0.25}') == ContentClass.JSON


@pytest.mark.parametrize("text", ["", " ", "\n\n", "ok", "12", "\ud800"])
def test_a_text_too_short_to_tell_gets_some_class(text: str) -> None:
    assert classify(text) in ContentClass


@given(st.text(max_size=300))
def test_any_text_gets_a_class_that_looks_can_tell(text: str) -> None:
    assert classify(text) not in {ContentClass.FRAME, ContentClass.MEDIA, ContentClass.THINKING}
