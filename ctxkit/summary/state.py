"""What the summary layer is made of, as a value that is saved with the agent: small plain JSON."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ctxkit.ledger import Ledger, clipped, raw_texts, scan_block, without_markers

if TYPE_CHECKING:
    from agentscope.message import Msg

Key = TypeVar("Key")

VERSION: Final = 1
JSON_BYTES: Final = 48_000
"""Default bound of the JSON: an agent's whole state of ctxkit stays under 64 kB, for it is saved every turn."""

_USERS_BYTES: Final = 10_000
_STUBS_BYTES: Final = 5_000
_FIELDS_BYTES: Final = 16_000
_LEDGER_LEAST_BYTES: Final = 6_000
_LEDGER_MOST_BYTES: Final = 28_000
_NOTES_BYTES: Final = 6_500
_MOST_NOTES: Final = 2
_REQUEST_CHARS: Final = 4_000
"""A longer request keeps its head and its tail here; the whole of it is stored with the messages."""

ROLL_UP: Final = 8
"""Stubs are merged eight at a time, so that the text before the newest ones changes at every eighth compression only."""

MOST_FAILURES: Final = 8
"""Newest tool failures that are kept, as in OpenClaw."""
_FAILURE_CHARS: Final = 240
_OVERSIZED_CHARS: Final = 8_000
_OVERSIZED_SHARE: Final = 0.5
"""A text is worth a note from so many characters on, where it is so much of all that left."""

_TOOLS_NAMED: Final = 6
_NAME_CHARS: Final = 40
_PLACES_NAMED: Final = 4


@dataclass(frozen=True, kw_only=True)
class UserRequest:
    """What a user said in a message that was compressed, verbatim."""

    id: str
    """Id of the message."""
    text: str
    reference: str | None = None
    """Where the message is stored."""


@dataclass(frozen=True, kw_only=True)
class Stub:
    """The lasting mark of one compression, or of several merged ones; its text never changes."""

    first: int
    """1-based number of the first compression that it stands for."""
    last: int
    messages: int
    tokens: int
    references: tuple[str, ...] = ()
    """Where the messages are stored, the first and the newest places; empty where they are not."""
    unnamed: int = 0
    """How many places of merged stubs are left out of `references`."""
    since: str = ""
    """When the first of the messages was made, as the message says it."""
    tools: str = ""
    """The tools that were called, most called first."""
    largest: str = ""
    """The text that was most of it, in words; empty where none was."""
    is_split: bool = False
    """The turn at its end goes on in the messages that stayed."""

    @property
    def text(self) -> str:
        """One line: what left the context, how much, and where it is."""
        name = f"Part {self.first}" if self.first == self.last else f"Parts {self.first} to {self.last}"
        what = f"{name}: {self.messages} messages, {self.tokens} tokens"
        largest = self.largest and f"most of it is {self.largest}"
        split = "its last turn goes on below" if self.is_split else ""
        details = "; ".join(part for part in (self.since and f"from {self.since}", self.tools, largest, split) if part)
        others = f" and {self.unnamed} other places" if self.unnamed else ""
        where = (
            f"stored in {', '.join(map(repr, self.references))}{others}; search_context finds, read_context reads what it says"
            if self.references
            else "dropped, and stored nowhere"
        )
        return f"{what} ({details}), {where}." if details else f"{what}, {where}."

    def merged(self, later: "Stub") -> "Stub":
        """Return one stub for this one and those up to a later one."""
        places = tuple(dict.fromkeys([*self.references, *later.references]))
        named = places if len(places) <= _PLACES_NAMED else (places[0], *places[1 - _PLACES_NAMED :])
        return Stub(
            first=self.first,
            last=later.last,
            messages=self.messages + later.messages,
            tokens=self.tokens + later.tokens,
            references=named,
            unnamed=self.unnamed + later.unnamed + len(places) - len(named),
            since=self.since,
        )


@dataclass(frozen=True, kw_only=True)
class SummaryState:
    """Everything that the summary layer shows; a value, each change makes a new one."""

    stubs: tuple[Stub, ...] = ()
    """Oldest first, one a compression until they are rolled up."""
    users: tuple[UserRequest, ...] = ()
    """Oldest first."""
    ledger: Ledger = field(default_factory=Ledger)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The summary's fields, as its schema has them; empty before the first compression."""
    notes: tuple[str, ...] = ()
    """What else the model must know, for example that the summary was made without a model."""
    failures: tuple[str, ...] = ()
    """Tool calls that failed and how, at most 240 characters each, the newest eight, oldest first."""

    async def absorb(
        self, messages: "Sequence[Msg]", *, tokens: int, reference: str | None, keeps: "Sequence[Msg]" = ()
    ) -> "SummaryState":
        """Return the state after a compression of these messages: one stub more, their requests and facts added.

        Args:
            messages: What leaves the context, oldest first.
            tokens: How much it was.
            reference: Where it is stored; `None` where it is not.
            keeps: The messages that stay, which tell whether a turn was split.
        """
        number = self.stubs[-1].last + 1 if self.stubs else 1
        stub = Stub(
            first=number,
            last=number,
            messages=len(messages),
            tokens=tokens,
            references=(reference,) if reference else (),
            since=str(getattr(messages[0], "created_at", "") or "")[:16] if messages else "",
            tools=_tools_of(messages),
            largest=_largest_of(messages),
            is_split=_is_split(messages, keeps),
        )
        failures = dict.fromkeys([*self.failures, *[text async for text in _failures_of(messages)]])
        new = tuple(requests_of(messages, reference=reference))
        known = {request.id for request in new}
        return replace(
            self,
            stubs=(*self.stubs, stub),
            users=(*(request for request in self.users if request.id not in known), *new),
            ledger=await self.ledger.read(messages),
            failures=tuple(failures)[-MOST_FAILURES:],
        )

    def to_json(self, limit_bytes: int = JSON_BYTES) -> dict[str, Any]:
        """Return plain JSON of at most about `limit_bytes` in UTF-8.

        What is over goes by rank: oldest requests between the first and the newest, identifiers unlikely to be needed,
        stubs by merging. The fields go last; where not even they fit, each is shortened.
        """
        scale = min(1.0, limit_bytes / JSON_BYTES)
        fields = _bounded_texts(self.fields, int(_FIELDS_BYTES * scale))
        notes = _bounded_texts(dict(enumerate(self.notes[-_MOST_NOTES:])), int(_NOTES_BYTES * scale))
        users = [dict(vars(request)) for request in _bounded_users(self.users, int(_USERS_BYTES * scale))]
        stubs = self.stubs
        while len(stubs) > ROLL_UP and _json_bytes([_stub_json(stub) for stub in stubs]) > _STUBS_BYTES * scale:
            stubs = rolled_up(stubs, ROLL_UP)
        head = {
            "version": VERSION,
            "stubs": [_stub_json(stub) for stub in stubs],
            "users": users,
            "fields": fields,
            "notes": list(notes.values()),
            "failures": list(self.failures),
        }
        room = max(int(_LEDGER_LEAST_BYTES * scale), limit_bytes - _json_bytes(head))
        return {**head, "ledger": self.ledger.to_json(min(room, int(_LEDGER_MOST_BYTES * scale)))}

    @classmethod
    def from_json(cls, data: object) -> "SummaryState":
        """Return the state that `to_json` wrote; what cannot be read is left out, never refused."""
        if not isinstance(data, Mapping) or data.get("version") != VERSION:
            return cls()
        fields = data.get("fields")
        return cls(
            stubs=tuple(stub for item in _list_of(data.get("stubs")) if (stub := _stub_of(item)) is not None),
            users=tuple(user for item in _list_of(data.get("users")) if (user := _request_of(item)) is not None),
            ledger=Ledger.from_json(data.get("ledger")),
            fields=dict(fields) if isinstance(fields, Mapping) else {},
            notes=tuple(note for note in _list_of(data.get("notes")) if isinstance(note, str)),
            failures=tuple(text for text in _list_of(data.get("failures")) if isinstance(text, str))[-MOST_FAILURES:],
        )


def requests_of(messages: "Sequence[Msg]", *, reference: str | None = None) -> Iterator[UserRequest]:
    """Yield what users said in these messages, verbatim but for reminders that the host put in; empty ones are left out."""
    for message in messages:
        if message.role == "user":
            text = without_markers("\n".join(block.text for block in message.content if block.type == "text")).strip()
            if text:
                yield UserRequest(
                    id=message.id, text=_head_and_tail(text, _REQUEST_CHARS, reference), reference=reference
                )


def rolled_up(stubs: tuple[Stub, ...], number: int) -> tuple[Stub, ...]:
    """Return the stubs with the first so many of them merged into one."""
    if number < 2 or len(stubs) < 2:  # noqa: PLR2004 - it takes two to merge
        return stubs
    merged = stubs[0]
    for stub in stubs[1:number]:
        merged = merged.merged(stub)
    return (merged, *stubs[number:])


def _tools_of(messages: "Sequence[Msg]") -> str:
    calls = Counter(block.name for message in messages for block in message.content if block.type == "tool_call")
    named = [f"{name} {times}x" for name, times in sorted(calls.items(), key=lambda item: (-item[1], item[0]))]
    return (
        "calls: " + ", ".join(named[:_TOOLS_NAMED]) + (" and others" if len(named) > _TOOLS_NAMED else "")
        if named
        else ""
    )


def _largest_of(messages: "Sequence[Msg]") -> str:
    """Return the text that is most of what these messages say, in words; nothing where none is large or most of it."""
    sizes = [(sum(map(len, raw_texts(block))), block, message) for message in messages for block in message.content]
    size, block, message = max(sizes, key=lambda item: item[0], default=(0, None, None))
    if (
        block is None
        or message is None
        or size < _OVERSIZED_CHARS
        or size < _OVERSIZED_SHARE * sum(s for s, *_ in sizes)
    ):
        return ""
    names = {"tool_result": "a result of", "tool_call": "a call of", "hint": "a hint to", "thinking": "the thinking of"}
    who = block.name if block.type in {"tool_result", "tool_call"} else message.name or message.role
    return f"{names.get(block.type, 'a text of')} {clipped(who, _NAME_CHARS)} with {size} characters"


def _is_split(messages: "Sequence[Msg]", keeps: "Sequence[Msg]") -> bool:
    """Return whether the turn in which a part ends goes on in what stays."""
    if not messages or not keeps:
        return False
    return keeps[0].role == "assistant" or messages[-1].id in {message.id for message in keeps}


async def _failures_of(messages: "Sequence[Msg]") -> AsyncIterator[str]:
    """Yield what failed in these messages, oldest first; what was scanned before costs a look-up."""
    for message in messages:
        for block in message.content:
            if block.type == "tool_result":
                facts = await scan_block(block, role=message.role)
                if facts.problem is not None:
                    said = " / ".join(facts.errors) or without_markers(
                        "\n".join(raw_texts(block))[: 4 * _FAILURE_CHARS]
                    )
                    code = f" (exit {facts.exit_code})" if facts.exit_code else ""
                    yield f"{clipped(block.name, _NAME_CHARS)}{code}: {clipped(said, _FAILURE_CHARS)}"


def _head_and_tail(text: str, limit_chars: int, reference: str | None) -> str:
    if len(text) <= limit_chars:
        return text
    tail = limit_chars // 4
    where = f"; all of it is stored in {reference!r}" if reference else ""
    return (
        f"{text[: limit_chars - tail]}\n[... {len(text) - limit_chars} characters left out{where} ...]\n{text[-tail:]}"
    )


def _bounded_users(users: tuple[UserRequest, ...], limit_bytes: int) -> list[UserRequest]:
    """Return the first request and as many of the newest as fit."""
    kept: list[UserRequest] = []
    room = limit_bytes
    for request in [*users[:1], *users[:0:-1]]:
        size = _json_bytes(vars(request))
        if size > room and kept:
            break
        if size > room:
            request = replace(request, text=_head_and_tail(request.text, max(room // 4, 80), request.reference))  # noqa: PLW2901 - the same request, shorter
            size = _json_bytes(vars(request))
        room -= size
        kept.append(request)
    return [*kept[:1], *kept[:0:-1]]


def _bounded_texts(texts: Mapping[Key, Any], limit_bytes: int) -> dict[Key, Any]:
    """Return the same values, the longest texts cut until all together have at most so many bytes of JSON."""
    bounded = dict(texts)
    limit_chars = limit_bytes
    while _json_bytes(list(bounded.values())) > limit_bytes and limit_chars > 1:
        limit_chars = limit_chars * 3 // 4
        bounded = {name: value[:limit_chars] if isinstance(value, str) else value for name, value in bounded.items()}
    return bounded


def _stub_of(item: object) -> Stub | None:
    match item:
        case {
            "first": int(first),
            "last": int(last),
            "messages": int(messages),
            "tokens": int(tokens),
            "references": list(references),
            "unnamed": int(unnamed),
            "since": str(since),
            "tools": str(tools),
            **rest,
        }:
            named = tuple(reference for reference in references if isinstance(reference, str))
            return Stub(
                first=first,
                last=last,
                messages=messages,
                tokens=tokens,
                references=named,
                unnamed=unnamed,
                since=since,
                tools=tools,
                largest=str(rest.get("largest", "")),  # states of before have neither
                is_split=rest.get("is_split") is True,
            )
    return None


def _request_of(item: object) -> UserRequest | None:
    match item:
        case {"id": str(request_id), "text": str(text), "reference": str() | None as reference}:
            return UserRequest(id=request_id, text=text, reference=reference)
    return None


def _stub_json(stub: Stub) -> dict[str, Any]:
    return {**vars(stub), "references": list(stub.references)}


def _json_bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _list_of(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
