"""A model's answer as summary fields: parsed, checked against the schema, and refused where it says nothing."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from json_repair import repair_json
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from referencing.jsonschema import EMPTY_REGISTRY

from ctxkit.ledger import Count

MAX_CHARS: Final = 200_000
"""Longer answers are not looked at: a summary has a few thousand characters."""

_MOST_BRACKETS: Final = 200
"""Text with more brackets is not repaired: the time for it grows with their square."""

_LONGEST_PLACEHOLDER: Final = 60
_BLANK: Final = re.compile(
    r"[\W_]*(?:n/?a|none|null|nil|tbd|todo|unknown|empty|string|text|placeholder|not (?:available|applicable|specified|provided)"
    r"|no information|nothing(?: to report)?|无|没有|暂无)?[\W_]*",
    re.IGNORECASE,
)


def parse_answer(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """Return the JSON object of an answer, or why there is none.

    The object may stand alone, in a fence, among prose, or in a wrapper object; a damaged one is repaired.

    Args:
        text: The answer's text.
        schema: The JSON schema of the fields; its required names tell the object from a wrapper.
    """
    if not text.strip():
        return "the answer has no text."
    if len(text) > MAX_CHARS:
        return f"the answer has {len(text)} characters; it must be a short JSON object."
    for candidate in _candidates(text):
        value = _loaded(candidate)
        if isinstance(value, dict) and value:
            return _unwrapped(value, schema)
    return "the answer holds no JSON object."


async def check_fields(
    fields: object, schema: Mapping[str, Any], *, max_tokens: int, count: Count
) -> Mapping[str, Any] | str:
    """Return the fields, or why they are no summary: against the schema, all blank, or too long.

    Args:
        fields: What was parsed, or what the host's structured output gave.
        schema: The JSON schema of the fields.
        max_tokens: Most tokens of all texts in the fields together.
        count: Returns the tokens of a text.
    """
    if not isinstance(fields, Mapping):
        return "the answer holds no JSON object."
    plain = dict(fields)
    problem = _schema_problem(plain, schema)
    if problem is not None:
        return problem
    texts = [text for text in _texts(plain) if not is_blank(text)]
    if not texts:
        return "every field is empty: write the summary into the fields."
    tokens = await count("\n".join(texts))
    if tokens > max_tokens:
        return f"the summary has {tokens} tokens, but at most {max_tokens} may be used: shorten it."
    return plain


def is_blank(text: str) -> bool:
    """Return whether a text says nothing: no letter or digit in it, or a placeholder."""
    if len(text) > _LONGEST_PLACEHOLDER:
        return not any(character.isalnum() for character in text)
    return _BLANK.fullmatch(text) is not None


def _candidates(text: str) -> Iterator[str]:
    yield text
    opening, closing = text.find("```"), text.rfind("```")
    if 0 <= opening < closing:
        yield text[text.find("\n", opening) + 1 : closing]
    start, stop = text.find("{"), text.rfind("}")
    if 0 <= start < stop:
        yield text[start : stop + 1]
    if start >= 0 and text.count("{") + text.count("[") <= _MOST_BRACKETS:
        yield str(repair_json(text[start:]))


def _loaded(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _unwrapped(value: dict[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object inside `{"summary": {...}}` and its like."""
    names = set(schema.get("properties") or ())
    if names and names.isdisjoint(value):
        for inner in value.values():
            if isinstance(inner, dict) and names & inner.keys():
                return inner
    return value


def _schema_problem(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    # With the empty registry a reference to another document is an error and never fetched.
    try:
        validator_for(schema).check_schema(dict(schema))
        error = best_match(validator_for(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(fields))
    except Exception as exc:  # noqa: BLE001 - the schema is the user's own; whatever is wrong with it is said
        return f"the JSON schema cannot be applied ({type(exc).__name__}: {str(exc)[:200]})."
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path)) or "the object"
    return f"it does not fit the JSON schema at {place}: {error.message[:300]}."


def _texts(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, str):
            yield item
        elif item is not None and not isinstance(item, bool):
            yield str(item)
