"""A summary without a model: what was asked, done, found, and said last, collected by code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ctxkit.ledger import Count, Ledger, clipped
from ctxkit.summary.state import requests_of

if TYPE_CHECKING:
    from agentscope.message import Msg

MARK: Final = "[Collected by code, for no model could summarise: excerpts, not conclusions.]"

NO_HISTORY: Final = "No prior history."
"""OpenClaw's text for a summary of which nothing is known."""

_REQUEST_CHARS: Final = 800
_REPLY_CHARS: Final = 1200
_PREVIOUS_CHARS: Final = 2000
_COMMANDS: Final = 8
_FILES: Final = 20
_ERRORS: Final = 8
_IDENTIFIERS: Final = 40
_TRIES: Final = 12
_LEAST_CHARS: Final = 40
_BOUNDS: Final = frozenset({"enum", "const", "maxLength", "pattern"})
"""What keeps the mark out of a text field."""


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """What a summary without a model is made from."""

    requests: Sequence[str] = ()
    """What users said, oldest first."""
    replies: Sequence[str] = ()
    """What the assistant said, oldest first."""
    ledger: Ledger = field(default_factory=Ledger)
    previous: str = ""
    """The summary before this one."""

    @classmethod
    async def of(cls, messages: "Sequence[Msg]", *, ledger: Ledger, previous: str = "") -> "Excerpt":
        """Return the excerpt of messages, whose facts are added to a ledger."""
        replies = (
            block.text
            for message in messages
            for block in message.content
            if message.role == "assistant" and block.type == "text"
        )
        return cls(
            requests=[request.text for request in requests_of(messages)],
            replies=[reply for reply in replies if reply.strip()],
            ledger=await ledger.read(messages),
            previous=previous,
        )


async def extract_fields(
    excerpt: Excerpt, schema: Mapping[str, Any], *, max_tokens: int, count: Count
) -> dict[str, Any]:
    """Return the fields of a summary that no model had a hand in; the first text says so.

    Args:
        excerpt: What to collect from.
        schema: The JSON schema of the fields; of one's own schema the text fields are filled, others get the least value
            that their type allows.
        max_tokens: Most tokens of all fields together.
        count: Returns the tokens of a text.
    """
    texts = _field_texts(excerpt)
    limit_chars = max(len(text) for text in texts.values())
    fields: dict[str, Any] = {}
    for _ in range(_TRIES):
        short = {name: _clipped(text, limit_chars) for name, text in texts.items()}
        short = {**short, "task_overview": f"{MARK}\n{short['task_overview']}"}
        fields = _filled(schema, short)
        tokens = await count("\n".join(str(value) for value in fields.values()))
        if tokens <= max_tokens or limit_chars <= _LEAST_CHARS:
            break
        limit_chars = max(_LEAST_CHARS, int(limit_chars * max(0.2, min(0.9, 0.9 * max_tokens / tokens))))
    return fields


def _field_texts(excerpt: Excerpt) -> dict[str, str]:
    ledger = excerpt.ledger
    newest = list(ledger.files.items())[::-1]
    changed = [f"{operation} {path}" for path, operation in newest if operation != "read"]
    read = [path for path, operation in newest if operation == "read"]
    commands = [
        f"$ {text} -> {outcome}" if outcome else f"$ {text}" for text, outcome, *_ in ledger.commands[-_COMMANDS:]
    ]
    asked = list(dict.fromkeys([*excerpt.requests[:1], *excerpt.requests[-2:]]))
    return {
        "task_overview": _lines(
            ("Asked first and last:", [_clipped(text, _REQUEST_CHARS) for text in asked]),
            ("From the summary before:", [_clipped(excerpt.previous, _PREVIOUS_CHARS)] if excerpt.previous else []),
        )
        if asked or excerpt.previous
        else NO_HISTORY,
        "current_state": _lines(
            ("Files changed, newest first:", changed[:_FILES]),
            ("Last commands:", commands),
            ("Files read, newest first:", [" ".join(read[:_FILES])] if read else []),
        ),
        "important_discoveries": _lines(("Errors seen, newest last:", ledger.errors[-_ERRORS:])),
        "next_steps": _lines(("Said last:", [_clipped(text, _REPLY_CHARS) for text in excerpt.replies[-1:]])),
        "context_to_preserve": _lines(
            ("The user demands:", ledger.constraints),
            ("Identifiers in use:", [" ".join(names)] if (names := ledger.ranked()[:_IDENTIFIERS]) else []),
        ),
    }


def _lines(*sections: tuple[str, Sequence[str]]) -> str:
    """Return titled lists; a field that nothing is known for says so, for blank fields are refused elsewhere."""
    return "\n".join(line for title, lines in sections if lines for line in (title, *(f"- {x}" for x in lines))) or (
        "Nothing was found by code."
    )


def _clipped(text: str, limit_chars: int) -> str:
    if len(text) <= limit_chars:
        return text
    tail = limit_chars // 4
    return f"{text[: limit_chars - tail]} [...] {text[len(text) - tail :]}"


def _filled(schema: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return an object of the schema, its text fields filled by name, else one after the other."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(texts)
    left = [text for name, text in texts.items() if name not in properties]

    def next_text() -> str:
        return left.pop(0) if left else "Nothing was found by code."

    fields = {
        name: texts[name] if name in texts and _type_of(part, schema) == "string" else _least(part, schema, next_text)
        for name, part in properties.items()
    }
    if not any(isinstance(value, str) and MARK in value for value in fields.values()):
        free = (
            n
            for n, part in properties.items()
            if isinstance(fields[n], str) and not _BOUNDS & _resolved(part, schema).keys()
        )
        for name in islice(free, 1):
            fields[name] = f"{MARK}\n{fields[name]}"
    return fields


def _resolved(part: object, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference inside the schema and take the first of several choices."""
    for _ in range(8):
        if not isinstance(part, Mapping):
            return {}
        reference = part.get("$ref")
        choices = next((part[key] for key in ("anyOf", "oneOf", "allOf") if part.get(key)), None)
        if isinstance(reference, str):
            found: object = schema
            for key in reference.removeprefix("#/").split("/"):
                found = found.get(key) if isinstance(found, Mapping) else None
            part = found
        elif isinstance(choices, list):
            part = choices[0]
        else:
            return part
    return {}


def _type_of(part: object, schema: Mapping[str, Any]) -> str:
    kind = _resolved(part, schema).get("type", "string")
    return str(kind[0]) if isinstance(kind, list) and kind else str(kind)


def _least(part: object, schema: Mapping[str, Any], next_text: Callable[[], str], depth: int = 0) -> Any:
    """Return the least value that a part of a schema allows; texts come from what was collected."""
    resolved = _resolved(part, schema)
    for key in ("const", "default"):
        if key in resolved:
            return resolved[key]
    if resolved.get("enum"):
        return resolved["enum"][0]
    kind = _type_of(part, schema)
    if kind == "object" and depth < 8:  # noqa: PLR2004 - a schema that refers to itself must end somewhere
        inner = resolved.get("properties") or {}
        return {name: _least(inner.get(name), schema, next_text, depth + 1) for name in resolved.get("required") or ()}
    if kind == "array":
        return [_least(resolved.get("items"), schema, next_text, depth + 1) for _ in range(resolved.get("minItems", 0))]
    plain: dict[str, Any] = {
        "integer": resolved.get("minimum", 0),
        "number": resolved.get("minimum", 0),
        "boolean": False,
        "null": None,
    }
    return plain[kind] if kind in plain else clipped(next_text(), resolved.get("maxLength", _REPLY_CHARS))
