"""What OpenAI and Anthropic refuse in a transcript, by the rules of their APIs as far as tool calls are concerned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Wire = Sequence[Mapping[str, Any]]


def openai_refusals(messages: Wire) -> list[str]:
    """Return what is wrong: each tool message must answer a call of the assistant message that it directly follows.

    Every call must be answered before the next message of another kind.
    """
    refusals = []
    waiting: Counter[str] = Counter()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if not waiting[message["tool_call_id"]]:
                refusals.append(f"message {number}: result {message['tool_call_id']!r} answers no call before it")
            waiting[message["tool_call_id"]] -= 1
            continue
        refusals += [f"message {number}: call {call_id!r} was not answered before it" for call_id in +waiting]
        waiting = Counter(call["id"] for call in message.get("tool_calls", ()))
        refusals += [f"message {number}: id {i!r} is used {n} times" for i, n in waiting.items() if n > 1]
        if not message.get("content") and not waiting:
            refusals.append(f"message {number} is empty")
    return refusals + [f"call {call_id!r} was not answered" for call_id in +waiting]


def anthropic_refusals(messages: Wire) -> list[str]:
    """Return what is wrong: the calls of a turn must all be answered in the very next turn, and by it alone.

    The API merges messages of one role that follow each other into one turn; the first must be the user's.
    """
    refusals = []
    calls: Counter[str] = Counter()
    for number, (role, content) in enumerate(turns(messages)):
        if number == 0 and role != "user":
            refusals.append("the first turn is not the user's")
        results = Counter(block["tool_use_id"] for block in content if block["type"] == "tool_result")
        refusals += [f"turn {number}: call {call_id!r} was not answered in it" for call_id in calls - results]
        refusals += [
            f"turn {number}: result {call_id!r} answers no call of the turn before" for call_id in results - calls
        ]
        calls = Counter(block["id"] for block in content if block["type"] == "tool_use")
        refusals += [f"turn {number}: id {i!r} is used {n} times" for i, n in calls.items() if n > 1]
        if role == "user" and calls:
            refusals.append(f"turn {number}: the user calls a tool")
        if role != "user" and results:
            refusals.append(f"turn {number}: the assistant answers a call")
    return refusals + [f"call {call_id!r} was not answered" for call_id in calls]


def turns(messages: Wire) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield role and blocks of each turn, the system prompt left out."""
    role, content = "", []
    for message in messages:
        if message["role"] == "system":
            continue
        if message["role"] != role and content:
            yield role, content
            content = []
        role = message["role"]
        content = [*content, *message["content"]]
    if content:
        yield role, content
