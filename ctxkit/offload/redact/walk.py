"""Redacts the strings in plain JSON: saved states, and messages as they are stored."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ctxkit.offload.redact.secrets import SecretRedactor
from ctxkit.offload.redact.text import PIECE_CHARS, Redactor, redact_text

_FORM: Final = frozenset(
    {"id", "type", "role", "state", "created_at", "finished_at", "media_type", "session_id", "reply_id"}
)
"""What ties a message and its blocks together; a redactor that changed it would make them unreadable."""
_PARTS: Final = frozenset({"text", "thinking", "hint", "tool_call", "tool_result", "data", "base64", "url"})
"""Types of AgentScope's blocks and of their sources."""
_PAUSE_ITEMS: Final = 1000


async def redact_json(value: Any, redactor: Redactor) -> Any:
    """Return plain JSON whose strings are redacted; the very same object where nothing was.

    Keys stay, and so do the ids, types and times of AgentScope's messages and blocks, and media in base64.

    Args:
        value: Dicts, lists, strings, numbers, booleans and None; it is not changed.
        redactor: Redacts each string.

    Raises:
        ConfigError: The redactor failed.
    """
    top = [value]
    holders: list[Any] = [top]
    found: dict[tuple[int, Any], str] = {}  # by what holds a string, and its place there
    seen = 0
    while holders:
        holder = holders.pop()
        for key, item in _items(holder):
            if isinstance(item, str):
                new = await redact_text(item, redactor)
                if new is not item:
                    found[id(holder), key] = new
                seen += len(item) + 1
            elif isinstance(item, dict | list):
                holders.append(item)
                seen += 1
            if seen > PIECE_CHARS:
                seen = 0
                await asyncio.sleep(0)
    return (await _copied(top, found))[0] if found else value


async def _copied(top: list[Any], found: Mapping[tuple[int, Any], str]) -> list[Any]:
    """Return a copy with other strings; made where there is one only, for most messages have none and are large."""
    whole = top.copy()
    copies: list[tuple[Any, Any]] = [(top, whole)]
    while copies:
        old, new = copies.pop()
        for number, (key, item) in enumerate(_items(old), start=1):
            if (id(old), key) in found:
                new[key] = found[id(old), key]
            elif isinstance(item, dict | list):
                new[key] = item.copy()
                copies.append((item, new[key]))
            if number % _PAUSE_ITEMS == 0:
                await asyncio.sleep(0)
    return whole


def _items(holder: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, list):
        yield from enumerate(holder)
        return
    kind = holder.get("type")
    is_part = "role" in holder or (isinstance(kind, str) and kind in _PARTS)
    is_state = isinstance(holder.get("context"), list)
    for key, item in holder.items():
        is_form = (is_part or is_state) and key in _FORM
        if not is_form and not (key == "data" and kind == "base64"):
            yield key, item


async def redact_body(body: str, redactor: Redactor) -> str:
    """Return a JSON object on one line whose strings are redacted; the very same text where nothing was.

    Args:
        body: As a codec's `dump` gave it.
        redactor: Redacts each string.

    Raises:
        ConfigError: The redactor failed.
    """
    if isinstance(redactor, SecretRedactor) and not await _may_hold(body, redactor):
        return body
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):  # none of the host's: as a text it can be redacted still
        return await redact_text(body, redactor)
    new: Mapping[str, Any] = await redact_json(read, redactor)
    return body if new is read else json.dumps(new, ensure_ascii=not _is_encodable(body), separators=(",", ":"))


async def _may_hold(body: str, redactor: SecretRedactor) -> bool:
    for start in range(0, len(body), PIECE_CHARS):
        if redactor.may_hold(body, start, min(start + PIECE_CHARS, len(body))):
            return True
        await asyncio.sleep(0)
    return False


def _is_encodable(text: str) -> bool:
    """Whether a text is no escaped one: what the host cannot encode comes with escapes, which must stay."""
    return not text.isascii()
