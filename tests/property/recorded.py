"""Contexts of recorded runs, which lie beside the repository and are no part of it."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agentscope.message import AssistantMsg, Msg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg

RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "recordings.jsonl.xz"


def sampled(*, per_source: int | None, most_tokens: int, seed: int = 1) -> Iterator[tuple[str, list[Msg]]]:
    """Yield the ids and messages of runs of each source, chosen at random, the agent's steps of a turn in one message each.

    Args:
        per_source: How many; all where None.
        most_tokens: Longer runs are left out.
        seed: Of the choice.
    """
    lines: dict[str, list[str]] = {}
    with lzma.open(RECORDINGS, "rt", encoding="utf-8") as file:
        for line in file:
            lines.setdefault(line[: line.index(",")], []).append(line)
    chance = random.Random(seed)
    for own in lines.values():
        runs = (run for run in map(json.loads, chance.sample(own, len(own))) if run["tokens"] <= most_tokens)
        for run in islice(runs, per_source):
            yield run["id"], messages_of(run["messages"])


def messages_of(run: list[dict[str, Any]]) -> list[Msg]:
    """Return a run in OpenAI's format as AgentScope keeps it."""
    messages: list[Msg] = []
    for said in run:
        if said["role"] == "user":
            messages.append(UserMsg("user", _text(said)))
        elif said["role"] != "system":
            if not messages or messages[-1].role != "assistant":
                messages.append(AssistantMsg(name="agent", content=[]))
            messages[-1].content.extend(_blocks(said))
    return messages


def _blocks(said: dict[str, Any]) -> Iterator[Any]:
    if said["role"] == "tool":
        call_id = str(said.get("tool_call_id") or "call")
        yield ToolResultBlock(id=call_id, name=str(said.get("name") or "tool"), output=[TextBlock(text=_text(said))])
        return
    if _text(said):
        yield TextBlock(text=_text(said))
    for made in said.get("tool_calls") or ():
        about = made["function"]
        yield ToolCallBlock(id=made["id"], name=about["name"], input=str(about["arguments"]), state="finished")


def _text(said: dict[str, Any]) -> str:
    content = said.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
