"""Recorded agent runs, and the events in them: an assistant uses an identifier that it was shown long before."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ctxkit.testing.tokenizers import tokenizer

Message = dict[str, Any]
"""A message in OpenAI's chat format."""

FRAME_TOKENS = 4
_IDENTIFIER = re.compile(
    r"""(?:[\w.\-@~+]*/)+[\w.\-@~+]*\w | [\w.+-]+@[\w-]+\.[\w.]+\w | \#?[A-Za-z]+[\-_]?\d[\w\-]* | \d[\d,.:\-]+\d | \d{3,}
      | [A-Za-z_]\w*_\w+ | [a-z]+[A-Z]\w+ | [A-Z][a-z]+[A-Z]\w+ | [A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+
      | [\u4e00-\u9fff\u3040-\u30ff]{3,16} | [\uac00-\ud7af]{3,12}""",
    re.VERBOSE,
)
_STOP = frozenset({"e.g", "i.e", "etc", "utf-8", "python3", "true", "false"})
_BARE = re.compile(r"\d{1,3}|[\d.]{1,4}|\d{1,3}[,:\-]\d{1,3}")
"""Line numbers and ranges: coincidence, not references."""
_WORD = re.compile(r"[A-Za-z]{4,}|[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]{2}")
_JSON_KEY = re.compile(r'"([A-Za-z_]\w*)"\s*:')


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One recorded run."""

    source: str
    id: str
    messages: Sequence[Message]
    window: int
    """Tokens of the context window in which it is replayed: small enough that it is compressed several times."""
    events: dict[int, list[str]]
    """Index of an assistant's message to the identifiers that it uses again; depends on the recording only."""


@lru_cache(maxsize=200_000)
def identifiers(text: str) -> frozenset[str]:
    """Return the identifiers of a text: paths, addresses, numbers, dotted, snake and camel names, CJK phrases."""
    found = (match.strip(".,:;-") for match in _IDENTIFIER.findall(text) if 3 <= len(match) <= 120)
    return frozenset(x for x in found if len(x) >= 3 and x.lower() not in _STOP and not _BARE.fullmatch(x))


def words(text: str) -> list[str]:
    """Return the words of a text that a search may be made of."""
    return [word.lower() for word in _WORD.findall(text)]


@lru_cache(maxsize=200_000)
def text_tokens(text: str) -> int:
    """Return the tokens of a text by cl100k."""
    return tokenizer("cl100k")(text)


def body(message: Message) -> str:
    """Return the text of a message, its calls included."""
    calls = (
        f"\n{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls") or []
    )
    return (message.get("content") or "") + "".join(calls)


def message_tokens(message: Message) -> int:
    """Return the tokens of a message."""
    return FRAME_TOKENS + text_tokens(body(message))


def read_sample(path: Path, *, per_source: int, only: Sequence[str] = ()) -> Iterator[Recording]:
    """Yield a fixed sample: of each source, runs at equal distances in the order of their ids.

    Runs that fit their window, and those without an event, are left out.

    Args:
        path: The recordings, xz-compressed JSON lines.
        per_source: Most runs of one source.
        only: Sources to take; all if empty.
    """
    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if run["tokens"] >= 2500 and (not only or run["source"] in only):
                by_source[run["source"]].append(run)
    for source in sorted(by_source):
        useful = [made for run in sorted(by_source[source], key=lambda run: run["id"]) if (made := _recording(run))]
        step = max(1, len(useful) // per_source)
        yield from useful[::step][:per_source]


def _recording(run: dict[str, Any]) -> Recording | None:
    messages = run["messages"]
    total = sum(map(message_tokens, messages))
    head = sum(map(message_tokens, messages[:2]))
    window = int(min(max(total * 0.4, head * 2.2, 2500), 64_000))
    if total <= 0.8 * window:
        return None
    events = _events(messages, distance=int(0.25 * window))
    if not events:
        return None
    return Recording(source=run["source"], id=run["id"], messages=messages, window=window, events=events)


def _events(messages: Sequence[Message], *, distance: int) -> dict[int, list[str]]:
    """Return what assistants use that the environment said before, last mentioned at least `distance` tokens back.

    What is pinned does not count (system prompt, first user message), nor names of tools and JSON keys, nor what stands
    in every third message.
    """
    first_user = next((i for i, message in enumerate(messages) if message["role"] == "user"), 0)
    excluded = set(identifiers(body(messages[first_user])))
    counts: Counter[str] = Counter()
    for message in messages:
        found = identifiers(body(message))
        counts.update(found)
        if message["role"] == "system":
            excluded |= found
        for call in message.get("tool_calls") or []:
            excluded |= {call["function"]["name"], *_JSON_KEY.findall(call["function"]["arguments"])}
        if message["role"] == "tool":
            excluded |= set(_JSON_KEY.findall(message["content"] or ""))
    excluded |= {name for name, count in counts.items() if count >= 8 and count > 0.3 * len(messages)}
    shown: set[str] = set()
    last: dict[str, int] = {}
    events: dict[int, list[str]] = {}
    position = 0
    for index, message in enumerate(messages):
        found = identifiers(body(message))
        if message["role"] == "assistant":
            again = [x for x in found if x in shown and x not in excluded and position - last[x] >= distance]
            if again:
                events[index] = sorted(again)
        elif index != first_user and message["role"] != "system":
            shown |= found
        position += message_tokens(message)
        last.update(dict.fromkeys(found, position))
    return events
