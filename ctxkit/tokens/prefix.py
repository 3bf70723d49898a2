"""How far two requests are the same from their beginning on, which is what a provider's prompt cache serves of the second."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from ctxkit.tokens.count import count_text, serve_loop
from ctxkit.tokens.counter import load_counter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.tokens.counter import Counter

_CLOSERS: Final = frozenset('"]}')
"""What JSON writes behind a value that goes on in the next request; no provider tokenises it."""
_STEP_CHARS: Final = 16_384
"""Texts are compared in pieces of at most this."""


@dataclass(frozen=True, kw_only=True)
class WireRequest:
    """A request as a formatter hands it to a provider; caches read tools first, then the messages in their order."""

    messages: Sequence[Any]
    """The formatted messages, the system prompt first where there is one."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tool schemas."""
    layers: Sequence[str] = ()
    """What the first messages are, in their order: `system prompt`, `summary`; the others go by number."""

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield what the request is made of, by name, in the order in which a cache compares it."""
        for tool in self.tools:
            yield f"tool {_tool_name(tool)!r}", tool
        for index, message in enumerate(self.messages):
            yield self.layers[index] if index < len(self.layers) else f"message {index} ({_role(message)})", message


@dataclass(frozen=True, kw_only=True)
class PrefixAudit:
    """How much of one request the next one begins with, and what ended it."""

    component: str | None
    """What differs first: a tool schema by name, `system prompt`, `summary`, or `message N (role)` with N from 0; `None`
    where the next request begins with the whole of the first."""
    path: str = ""
    """Where in that component, for example `content[0].text`; empty where it is missing altogether."""
    position: int | None = None
    """0-based offset of the first byte that differs, in the first request as JSON in UTF-8; `None` where none does."""
    stable_bytes: int
    """Bytes, in that form, that both begin with."""
    stable_tokens: int
    """Tokens of them, as a prior tokenizer counts."""
    total_bytes: int
    """Bytes of the first request in that form."""

    @property
    def share(self) -> float:
        """Share of the first request that the next one begins with, [0, 1]; 1 exactly where it is all of it."""
        return self.stable_bytes / self.total_bytes if self.total_bytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "share": self.share}


async def prefix_audit(before: WireRequest, after: WireRequest, *, counter: Counter | None = None) -> PrefixAudit:
    """Return how much of a request the next one begins with, and the first component that broke it.

    Both are compared as JSON, part by part. A last message that only goes on, so that nothing but JSON's closing
    characters differ, is stable. The event loop is served in between.

    Args:
        before: The request that was sent first.
        after: The one that follows it.
        counter: Counts the stable tokens; the best prior on this machine where unset.
    """
    counter = counter or await load_counter()
    component, path, position = None, "", None
    stable = tokens = total = 0
    last = sum(1 for _ in before.parts()) - 1
    for index, (old, new) in enumerate(zip_longest(before.parts(), after.parts())):
        if old is None:  # the rest is new: it follows what was there
            break
        text = _dump(old[1])
        total += _size(text)
        await serve_loop()
        if component is not None:
            continue
        follows = "" if new is None else _dump(new[1])
        common = await _common_chars(text, follows)
        if common == len(text) or (index == last and new is not None and _CLOSERS.issuperset(text[common:])):
            common = len(text)
        else:
            component = _named(before, after, old, new)
            is_alike = new is not None and new[0].split(" ")[0] == old[0].split(" ")[0]
            path = _path(old[1], new[1]) if new is not None and is_alike else ""
            position = stable + _size(text[:common])
        stable += _size(text[:common])
        tokens += await count_text(text[:common], counter)
    return PrefixAudit(
        component=component,
        path=path,
        position=position,
        stable_bytes=stable,
        stable_tokens=tokens,
        total_bytes=total,
    )


def _named(before: WireRequest, after: WireRequest, old: tuple[str, Any], new: tuple[str, Any] | None) -> str:
    """Return the name of what differs; a tool that was put in or taken out is named rather than the one it moved."""
    names = {_tool_name(tool) for tool in before.tools}
    if new is not None and new[0].startswith("tool ") and _tool_name(new[1]) not in names:
        return new[0]
    moved = old[0].startswith("tool ") and _tool_name(old[1]) in {_tool_name(tool) for tool in after.tools}
    return f"{old[0]}, whose place changed" if moved and new is not None and new[0] != old[0] else old[0]


def _path(old: Any, new: Any) -> str:
    """Return where two unequal values differ first."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            if key not in old or key not in new:
                return f".{key}".lstrip(".")
            if old[key] != new[key]:
                return _joined(str(key), _path(old[key], new[key]))
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for index, (a, b) in enumerate(zip(old, new, strict=False)):
            if a != b:
                return _joined(f"[{index}]", _path(a, b))
        return f"[{min(len(old), len(new))}]"
    return ""


def _joined(head: str, tail: str) -> str:
    return f"{head}.{tail}" if tail and not tail.startswith("[") else f"{head}{tail}"


async def _common_chars(one: str, other: str) -> int:
    """Return how many characters two texts begin with together."""
    start, most = 0, min(len(one), len(other))
    while start < most and one[start : start + _STEP_CHARS] == other[start : start + _STEP_CHARS]:
        start += _STEP_CHARS
        await serve_loop()
    low, high = min(start, most), min(start + _STEP_CHARS, most)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _dump(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, default=str)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str((function if isinstance(function, Mapping) else tool).get("name", "?"))


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)
    return str(role) if role is not None else "?"
