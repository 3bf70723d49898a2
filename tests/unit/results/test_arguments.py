"""A tool call's arguments stay JSON with the same keys."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.results import shorten_arguments


async def shorten(arguments: str, limits, ruler) -> str:
    return await shorten_arguments(arguments, limits=limits, ruler=ruler, reference="ref-1")


@pytest.mark.asyncio
async def test_arguments_that_fit_stay_as_they_are(ruler, make) -> None:
    assert await shorten('{"a":  1}', make(50), ruler) == '{"a":  1}'
    assert await shorten("not json", make(50), ruler) == "not json"


@pytest.mark.asyncio
async def test_a_long_string_keeps_both_ends_and_a_note(ruler, make) -> None:
    arguments = {"file_path": "/a/b.py", "content": "first line\n" + "x = 1\n" * 9000 + "last line\n", "mode": 3}
    kept = json.loads(await shorten(json.dumps(arguments), make(300), ruler))
    assert list(kept) == list(arguments)
    assert (kept["file_path"], kept["mode"]) == ("/a/b.py", 3)
    assert kept["content"].startswith("first line\n")
    assert kept["content"].endswith("last line\n")
    assert "characters omitted; full text: ref-1]" in kept["content"]


@pytest.mark.asyncio
async def test_a_cut_list_says_so_inside(ruler, make) -> None:
    kept = json.loads(await shorten(json.dumps({"rows": list(range(9000)), "to": "x"}), make(200), ruler))
    assert kept["to"] == "x"
    assert kept["rows"][:-1] == list(range(len(kept["rows"]) - 1))
    assert "characters omitted" in kept["rows"][-1]


@pytest.mark.parametrize(
    "arguments",
    [
        "no json " * 900,
        '{"cut": "of' + "f" * 9000,
        "[1" + ",1" * 9000 + "]",
        json.dumps({str(i): i for i in range(5000)}),
    ],
    ids=["prose", "open", "list", "wide"],
)
@pytest.mark.asyncio
async def test_what_is_no_object_or_too_wide_goes_under_one_key(ruler, make, arguments) -> None:
    text = await shorten(arguments, make(200), ruler)
    kept = json.loads(text)
    assert list(kept) == ["_truncated"]
    assert kept["_truncated"].startswith(arguments[:20])
    assert kept["_truncated"].endswith(arguments[-20:])
    assert await ruler.count(text) <= 200


@settings(max_examples=150, deadline=None)
@given(
    arguments=st.one_of(
        st.dictionaries(st.text(max_size=12), st.one_of(st.integers(), st.text(), st.lists(st.text()))).map(json.dumps),
        st.text(alphabet=st.characters()),
    ).map(lambda text: text),
    filler=st.text(min_size=1, max_size=5),
    tokens=st.integers(1, 300),
)
@pytest.mark.asyncio
async def test_shortened_arguments_are_always_an_object_within_the_limit(
    ruler_for_properties, make, arguments, filler, tokens
) -> None:
    ruler = ruler_for_properties
    big = (
        arguments[:-1] + ', "zz": ' + json.dumps(filler * 900) + "}"
        if arguments.endswith("}")
        else arguments + filler * 900
    )
    text = await shorten(big, make(tokens), ruler)
    if text == big:
        return
    kept = json.loads(text)
    assert isinstance(kept, dict)
    assert await ruler.count(text) <= tokens or list(kept) == ["_truncated"]
