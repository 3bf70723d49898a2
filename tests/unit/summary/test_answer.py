from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.schema import summary_json_schema
from ctxkit.summary import check_fields, parse_answer
from tests.unit.summary.fakes import FIELDS, GOOD, count

SCHEMA = summary_json_schema()


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Here is the summary:\n```\n{GOOD}\n```\nDone.",
        f"Sure! {GOOD} I hope this helps.",
        json.dumps({"summary": FIELDS}),
        json.dumps({"name": "SummarySchema", "arguments": FIELDS}),
        GOOD[:-1],
        GOOD.replace('", "', '", \n"').replace('"}', '",}'),
        json.dumps(FIELDS, indent=2).replace("Two of three", "Two\nof three").replace("Two\nof three", "Two of three"),
    ],
)
def test_the_object_is_found_however_it_is_wrapped(text):
    assert parse_answer(text, SCHEMA) == FIELDS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("  \n", "no text"),
        ("I cannot.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("x" * 300_000, "300000 characters"),
    ],
)
def test_an_answer_without_an_object_says_why(text, reason):
    assert reason in parse_answer(text, SCHEMA)


@given(st.text(max_size=300))
def test_no_text_makes_parsing_fail(text):
    assert isinstance(parse_answer(text, SCHEMA), dict | str)


@pytest.mark.parametrize("part", ["```json\n", "{", '{"a":', "[", "-", "\\"])
def test_no_text_makes_parsing_slow(part):
    started = time.thread_time()
    parse_answer(part * (20_000 // len(part)), SCHEMA)
    assert time.thread_time() - started < 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (None, "no JSON object"),
        ({}, "'task_overview' is a required property"),
        ({**FIELDS, "next_steps": ["a"]}, "at next_steps: ['a'] is not of type 'string'"),
        (dict.fromkeys(FIELDS, " - "), "every field is empty"),
        (dict.fromkeys(FIELDS, "Not available."), "every field is empty"),
        ({**FIELDS, "next_steps": "go " * 4000}, "at most 2000"),
    ],
)
async def test_what_is_no_summary_is_refused_with_the_reason(fields, reason):
    assert reason in await check_fields(fields, SCHEMA, max_tokens=2000, count=count)


@pytest.mark.asyncio
async def test_one_field_that_says_something_is_enough():
    fields = {**dict.fromkeys(FIELDS, "none"), "next_steps": "Run the tests."}
    assert await check_fields(fields, SCHEMA, max_tokens=2000, count=count) == fields


@pytest.mark.asyncio
async def test_a_schema_that_cannot_be_applied_is_a_reason_and_no_error():
    assert "schema" in await check_fields(FIELDS, {"type": "nonsense"}, max_tokens=99, count=count)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "schema", [{"$ref": "#/nowhere"}, {"properties": {"next_steps": {"$ref": "http://x.invalid/y"}}}]
)
async def test_a_reference_that_leads_nowhere_is_a_reason_and_no_error(schema):
    assert "schema" in await check_fields(FIELDS, schema, max_tokens=99, count=count)
