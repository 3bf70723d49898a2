from __future__ import annotations

import pytest
from jsonschema import validate

from ctxkit.ledger import Ledger
from ctxkit.schema import SUMMARY_FIELDS, summary_json_schema
from ctxkit.summary import MARK, Excerpt, extract_fields
from tests.unit.fakes import agent, call, result, user
from tests.unit.summary.fakes import count

MESSAGES = (
    user("Fix the parser. You must keep the API."),
    agent(
        call("1", "Bash", command="pytest -q"),
        result("1", "TypeError: bad token\nexit code 1"),
        "I will look at lexer.py.",
    ),
    user("And be quick."),
    agent(call("2", "Edit", path="src/lexer.py"), result("2"), "Now run the tests again."),
)


async def extracted(schema=None, max_tokens=2000, **changes):
    excerpt = await Excerpt.of(MESSAGES, ledger=Ledger(), **changes)
    return await extract_fields(excerpt, schema or summary_json_schema(), max_tokens=max_tokens, count=count)


@pytest.mark.asyncio
async def test_each_field_is_filled_from_what_was_said_and_done():
    fields = await extracted(previous="Before that: setup.")
    assert list(fields) == list(SUMMARY_FIELDS)
    assert fields["task_overview"].startswith(MARK)
    for field, part in {
        "task_overview": "And be quick.",
        "current_state": "modified src/lexer.py",
        "important_discoveries": "TypeError: bad token",
        "next_steps": "Now run the tests again.",
        "context_to_preserve": "You must keep the API.",
    }.items():
        assert part in fields[field]
    assert "$ pytest -q -> exit 1: TypeError: bad token" in fields["current_state"]
    assert "Before that: setup." in fields["task_overview"]


@pytest.mark.asyncio
async def test_no_field_is_blank_even_of_nothing():
    fields = await extract_fields(Excerpt(), summary_json_schema(), max_tokens=500, count=count)
    assert all(fields.values())


@pytest.mark.asyncio
@pytest.mark.parametrize("max_tokens", [80, 150, 400])
async def test_the_fields_fit_their_budget(max_tokens):
    fields = await extracted(max_tokens=max_tokens, previous="long " * 900)
    assert await count("\n".join(fields.values())) <= max_tokens + 60  # the mark and the titles stay


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "properties",
    [
        {"summary": {"type": "string"}},
        {"task_overview": {"type": "string"}, "score": {"type": "number", "minimum": 2}},
        {"a": {"type": "string", "maxLength": 50}, "b": {"type": "array", "items": {"type": "string"}, "minItems": 2}},
        {"kind": {"enum": ["x", "y"]}, "on": {"type": "boolean"}, "none": {"type": "null"}, "text": {"type": "string"}},
        {"part": {"$ref": "#/$defs/Part"}},
        {"maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "fixed": {"const": 3}},
        {"many": {"type": ["string", "null"]}},
    ],
)
async def test_an_own_schema_is_satisfied(properties):
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": {
            "Part": {
                "type": "object",
                "properties": {"t": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["t", "n"],
            }
        },
    }
    validate(await extracted(schema), schema)


@pytest.mark.asyncio
async def test_the_same_messages_give_the_same_fields():
    assert await extracted() == await extracted()
