"""A stored message as text that people and models can read, with the place where each speaker begins."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxkit.offload.lines import unseal

_BLANKED: Final = {0: 0x2400, **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)}
"""NUL and lone surrogates cannot be indexed; what stands for them is as long, so positions stay."""

_BAD_ENDS: Final = frozenset({"error", "interrupted", "denied"})
"""States of a tool result that are worth a word."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message as text."""

    text: str
    speakers: Sequence[tuple[int, str]]
    """(first character, who speaks from there), ascending; the first one at 0."""
    message_id: str = ""
    tools: Sequence[tuple[str, str]] = ()
    """(call id, tool) of the calls and results in it."""
    blocks: Sequence[tuple[int, str]] = ()
    """(first character, what tells it from others) of each block of a message, ascending; empty for one without an id."""


def plain(text: str) -> str:
    """Return a text of the same length that can be indexed."""
    if text.isascii() and "\0" not in text:
        return text
    return text.translate(_BLANKED)


def render_record(data: bytes) -> Rendered:
    """Return a record as text: a message block by block, anything else as its JSON; damaged ones say so."""
    line = unseal(data)
    try:
        body = json.loads(line.body) if line is not None else None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return Rendered("(this record is damaged)\n\n", [(0, "damaged record")])
    if not isinstance(body.get("content"), list | str):
        return Rendered(plain(json.dumps(body, ensure_ascii=False)) + "\n\n", [(0, "record")])
    return _render_message(body)


def _render_message(message: Mapping[str, Any]) -> Rendered:
    role, name = str(message.get("role", "?")), str(message.get("name", ""))
    speaker = role if name in ("", role) else f"{role} {plain(name[:60])}"
    parts: list[str] = []
    speakers: list[tuple[int, str]] = []
    tools: list[tuple[str, str]] = []
    blocks: list[tuple[int, str]] = []
    length = 0
    content = message["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if not isinstance(block, dict):
            continue
        if isinstance(block.get("id"), str) and isinstance(block.get("name"), str):
            tools.append((block["id"], block["name"][:60]))
        # A call and its result have one id.
        blocks.append((length, f"{block.get('type')}:{plain(block['id'])}" if isinstance(block.get("id"), str) else ""))
        for who, text in _block_texts(block, speaker):
            label = plain(who)
            part = f"[{label}]\n{plain(text)}\n\n"
            if not speakers or speakers[-1][1] != label:
                speakers.append((length, label))
            parts.append(part)
            length += len(part)
    if not parts:
        return Rendered(f"[{speaker}]\n\n", [(0, speaker)], str(message.get("id", "")))
    return Rendered("".join(parts), speakers, str(message.get("id", "")), tools, blocks)


def _block_texts(block: Mapping[str, Any], speaker: str) -> Iterator[tuple[str, str]]:
    """Yield (who, text) of a block; unknown kinds as their JSON."""
    match block.get("type"):
        case "text":
            yield speaker, str(block.get("text", ""))
        case "thinking":
            yield f"{speaker}, thinking", str(block.get("thinking", ""))
        case "hint":
            yield f"hint from {block.get('source') or 'the system'}", _pieces_text(block.get("hint", ""))
        case "tool_call":
            yield f"{speaker}, call of {_tool(block)}", str(block.get("input", ""))
        case "tool_result":
            state = block.get("state")
            ended = f", {state}" if state in _BAD_ENDS else ""
            yield f"result of {_tool(block)}{ended}", _pieces_text(block.get("output", ""))
        case "data":
            yield speaker, _media_text(block)
        case _:
            yield speaker, json.dumps(block, ensure_ascii=False)


def _tool(block: Mapping[str, Any]) -> str:
    return f"{str(block.get('name', '?'))[:60]} ({str(block.get('id', '?'))[:60]})"


def _pieces_text(pieces: object) -> str:
    if not isinstance(pieces, list):
        return str(pieces)
    blocks = [piece for piece in pieces if isinstance(piece, dict)]
    return "\n".join(str(block["text"]) if "text" in block else _media_text(block) for block in blocks)


def _media_text(block: Mapping[str, Any]) -> str:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    where = source.get("url") or "kept inside the record"
    return f"<data url='{where}' name='{block.get('name')}' media_type='{source.get('media_type')}'/>"
