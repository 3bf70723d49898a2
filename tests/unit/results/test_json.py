"""JSON keeps whole items, stays valid, and says how many of how many."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.results import Kind, detect
from ctxkit.results.json_items import JsonShortener

SHORTENER = JsonShortener()


async def shorten(text: str, ruler, tokens: int = 200):
    return await SHORTENER.shorten(text, limit_tokens=tokens, head_ratio=0.6, ruler=ruler, tool_name="find")


@pytest.mark.row("X14")
@pytest.mark.row("D6")
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.asyncio
async def test_a_list_keeps_its_first_whole_items_and_counts_them(ruler, indent) -> None:
    items = [{"id": i, "name": f"file {i}.py"} for i in range(812)]
    kept = await shorten(json.dumps(items, indent=indent), ruler)
    assert kept is not None
    values = json.loads(kept.head)
    assert values == items[: len(values)]
    assert len(values) > 5
    assert kept.tail == ""
    assert (kept.items, kept.shown) == ((len(values), 812), f"first {len(values)} of 812 items")


@pytest.mark.asyncio
async def test_the_offset_is_where_the_first_missing_item_begins(ruler) -> None:
    items = [{"id": i} for i in range(500)]
    text = json.dumps(items)
    kept = await shorten(text, ruler)
    assert kept is not None
    assert kept.offset is not None
    assert text[kept.offset :].startswith(json.dumps(items[len(json.loads(kept.head))]))


@pytest.mark.asyncio
async def test_an_object_keeps_its_small_fields_and_cuts_the_big_list_wherever_it_is(ruler) -> None:
    value = {"status": "ok", "data": {"results": [{"n": i} for i in range(900)], "next": "p2"}, "took_ms": 3}
    kept = await shorten(json.dumps(value), ruler)
    assert kept is not None
    small = json.loads(kept.head)
    results = small["data"].pop("results")
    assert small == {"status": "ok", "data": {"next": "p2"}, "took_ms": 3}
    assert results == value["data"]["results"][: len(results)]
    assert kept.shown == f"first {len(results)} of 900 items of data.results"


@pytest.mark.asyncio
async def test_a_wide_object_keeps_its_first_whole_members(ruler) -> None:
    value = {f"key{i}": i for i in range(5000)}
    kept = await shorten(json.dumps(value), ruler)
    assert kept is not None
    small = json.loads(kept.head)
    assert list(small.items()) == list(value.items())[: len(small)]
    assert kept.shown == f"first {len(small)} of 5000 members"


@pytest.mark.asyncio
async def test_one_item_that_is_too_big_is_shortened_inside(ruler) -> None:
    value = [{"id": 7, "body": "start " + "é\n" * 9000 + " the end"}, {"id": 8}]
    kept = await shorten(json.dumps(value), ruler)
    assert kept is not None
    (item,) = json.loads(kept.head)
    assert item["id"] == 7
    assert item["body"].startswith("start ")
    assert item["body"].endswith(" the end")
    assert re.search(r"…\[\d+ characters omitted\]…", item["body"])
    assert kept.items == (1, 2)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.asyncio
async def test_a_string_is_never_cut_inside_an_escape_or_a_grapheme(ruler, ascii_only) -> None:
    family = "👨‍👩‍👧‍👦"
    for tokens in range(60, 120):
        kept = await shorten(json.dumps({"s": family * 800}, ensure_ascii=ascii_only), ruler, tokens)
        assert kept is not None
        assert re.sub(r"…\[\d+ characters omitted\]…", "", json.loads(kept.head)["s"]).replace(family, "") == ""


@pytest.mark.asyncio
async def test_json_lines_keep_whole_lines_from_both_ends(ruler) -> None:
    lines = [json.dumps({"i": i}) for i in range(4000)]
    kept = await shorten("\n".join(lines) + "\n", ruler)
    assert kept is not None
    first, last = kept.head.splitlines(), kept.tail.splitlines()
    assert (first, last) == (lines[: len(first)], lines[-len(last) :])
    assert kept.shown == f"first {len(first)} and last {len(last)} of 4000 lines"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        "[" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        "[" + ",".join(["1"] * 9000),
        "[" + ",".join(["1"] * 9000) + "}",
        "[" + "9" * 5000 + "," + ",".join(["1"] * 9000) + "]",
        "[1, 2, oops, " + ",".join(["1"] * 9000) + "]",
        '{"a": [1, 2 3, ' + ",".join(["1"] * 9000) + "]}",
        json.dumps(list(range(9000))) + " and more",
        '["' + "x" * 90_000,
        "[]",
    ],
    ids=str.split("deep opened deep-objects truncated wrong-bracket long-int word missing-comma trailing open empty"),
)
@pytest.mark.asyncio
async def test_what_no_strict_reader_takes_is_left_to_another_kind(ruler, text) -> None:
    assert await shorten(text, ruler) is None


@pytest.mark.parametrize("text", ["[2024-01-01 10:00:00] start", "[INFO] x", "[1/5] step", "{not json}", "", "plain"])
def test_what_only_begins_like_json_is_not_taken_for_it(text) -> None:
    assert detect(text * 9, tool_name="x", verbatim=False) is not Kind.JSON


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=60,
)


@settings(max_examples=150, deadline=None)
@given(
    value=st.one_of(
        st.lists(VALUES, min_size=1, max_size=40), st.dictionaries(st.text(max_size=9), VALUES, min_size=1, max_size=40)
    ),
    tokens=st.integers(5, 300),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
@pytest.mark.asyncio
async def test_any_json_stays_json_within_its_limit(ruler_for_properties, value, tokens, indent, ascii_only) -> None:
    ruler = ruler_for_properties
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    kept = await shorten(text, ruler, tokens)
    if kept is None:
        return
    small = json.loads(kept.head)
    assert await ruler.count(kept.head) <= tokens
    assert type(small) is type(value)
    assert len(small) <= len(value)
    if kept.items is not None and " of " in kept.shown and isinstance(value, list) and kept.offset is not None:
        assert kept.items == (len(small), len(value))
        assert small == value[: len(small)]


@pytest.mark.parametrize(
    "item",
    [1.5, "a,b", 'say "hi", \\', [1, 2], {"a": 1, "b": "x,]"}, {"a": {"b": [1, {"c": "}"}]}}, ["x" * 70_000], {}],
    ids=["number", "comma", "quotes", "list", "object", "nested", "big", "empty"],
)
@pytest.mark.asyncio
async def test_items_far_behind_the_cut_are_counted_exactly(ruler, item) -> None:
    total = 1500 if len(json.dumps(item)) > 1000 else 6000
    kept = await shorten(json.dumps([0, *[item] * total]), ruler)
    assert kept is not None
    assert kept.items == (len(json.loads(kept.head)), total + 1)
