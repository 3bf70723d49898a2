"""What a summary must keep: pins, open errors, changed files, work in flight, the newest request; added where missing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.ledger import Count, Failure, Ledger, clipped, count_fitting, identifiers_of, raw_texts, without_markers
from ctxkit.ledger.jobs import NOTICE_CHARS, says_over, started_in

if TYPE_CHECKING:
    from agentscope.message import Msg

FactKind = Literal["pin", "request", "error", "flight", "file"]

ADDED: Final = "From the record:"
"""Stands before what code added to a field."""

_FIELDS: Final[Mapping[FactKind, str]] = {
    "pin": "context_to_preserve",
    "request": "task_overview",
    "error": "important_discoveries",
    "flight": "next_steps",
    "file": "current_state",
}
_MOST_ERRORS: Final = 4
_ERROR_NAMES: Final = 6
_MOST_FILES: Final = 12
_MOST_CALLS: Final = 6
_FACT_CHARS: Final = 200
_SAID_SHARE: Final = 0.6
"""Share of a text's words that a summary must have, to count as saying it in its own words."""
_WORD: Final = re.compile(r"\w{4,}")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing that a summary must not lose."""

    kind: FactKind
    text: str
    """What is added where it is missing, one line."""
    names: tuple[str, ...] = ()
    """In lower case; a summary that has one of these has the fact. Without any, most of the words must be there."""

    def is_in(self, said: str) -> bool:
        """Return whether a summary, in lower case, has it."""
        if self.names:
            return any(name in said for name in self.names)
        body = self.text.partition(": ")[2].lower()
        words = {*_WORD.findall(body), *_CJK.findall(body)}
        return body in said or sum(word in said for word in words) >= max(1.0, _SAID_SHARE * len(words))


def facts_to_keep(
    leaves: "Sequence[Msg]", ledger: Ledger, *, stays: "Sequence[Msg]" = (), pins: Sequence[str] = ()
) -> list[Fact]:
    """Return what a summary of messages must keep, the most important first.

    Args:
        leaves: What is summarised, oldest first.
        ledger: Facts of everything up to now.
        stays: What stays in the context; the newest request must be kept only where none stays.
        pins: What somebody wants kept for ever.
    """
    facts = [Fact(kind="pin", text=f"Pinned: {clipped(pin, _FACT_CHARS)}") for pin in pins if pin.strip()]
    request = (
        "" if any(_request_of(message) for message in stays) else next(filter(None, map(_request_of, leaves[::-1])), "")
    )
    if request:
        facts.append(Fact(kind="request", text=f"Newest request: {clipped(request, _FACT_CHARS)}"))
    facts += map(_open_error, ledger.open_failures[: -_MOST_ERRORS - 1 : -1])
    facts += _in_flight(leaves)
    changed = [(path, state) for path, state in [*ledger.files.items()][::-1] if state != "read"]
    for path, state in changed[:_MOST_FILES]:
        name = path.rstrip("/").rpartition("/")[2] or path
        facts.append(Fact(kind="file", text=f"File {state}: {path}", names=(name.lower(),)))
    return facts


def _open_error(failure: Failure) -> Fact:
    """Return an error that nothing has resolved; a summary that has the command line, or names out of the error, has it."""
    line = failure.what.partition(" ")[2].removesuffix("…")
    names = {failure.what, *([line] if " " in line else []), *identifiers_of(failure.said, _ERROR_NAMES)}
    said = f"{clipped(failure.what, _FACT_CHARS // 2)} -> {clipped(failure.said, _FACT_CHARS // 2)}"
    return Fact(kind="error", text=f"Not resolved: {said}", names=tuple(sorted(map(str.lower, names))))


async def with_facts(
    fields: Mapping[str, Any], facts: Sequence[Fact], *, room_tokens: int, count: Count
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields with the facts that they lack, each in the field where it belongs, and what was added.

    Args:
        fields: The summary; of an own schema the first text field takes all.
        facts: What must be kept, the most important first.
        room_tokens: Most tokens of all that is added.
        count: Returns the tokens of a text.
    """
    said = "\n".join(text for text in fields.values() if isinstance(text, str)).lower()
    lines = [fact.text for fact in facts]
    missing = [fact for fact in facts if not fact.is_in(said)]
    missing = missing[: await count_fitting([fact.text for fact in missing], room_tokens, count)]
    free = next((name for name, value in fields.items() if isinstance(value, str)), None)
    added: dict[str, list[str]] = {}
    for fact in missing:
        wanted = _FIELDS[fact.kind]
        name = wanted if isinstance(fields.get(wanted), str) else free
        if name is not None:
            added.setdefault(name, []).append(fact.text)
    whole = {name: "\n".join([fields[name], ADDED, *(f"- {line}" for line in new)]) for name, new in added.items()}
    return {**fields, **whole}, [line for line in lines if any(line in new for new in added.values())]


def _request_of(message: "Msg") -> str:
    """Return what a user asked in a message."""
    if message.role != "user":
        return ""
    return without_markers("\n".join(block.text for block in message.content if block.type == "text")).strip()


def _in_flight(messages: "Sequence[Msg]") -> list[Fact]:
    """Return the background jobs that a tool said were started and nothing has said to be over.

    Calls without a result are none of them: those that still wait never leave the context.
    """
    running: dict[str, Fact] = {}
    for message in messages:
        for block in message.content:
            if block.type not in {"tool_result", "hint"}:
                continue
            said = "\n".join(raw_texts(block))[:NOTICE_CHARS]
            for job in [job for job in running if job in said.lower() and says_over(said)]:
                del running[job]
            if block.type == "tool_result" and (started := started_in(said)) is not None:
                names = started or (block.id.lower(),)
                text = clipped(f"Still running: {block.name} {block.id}: {said}", _FACT_CHARS)
                running[names[0]] = Fact(kind="flight", text=text, names=names)
    return list(running.values())[-_MOST_CALLS:]
