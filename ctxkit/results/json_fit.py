"""Makes a JSON value smaller and leaves it valid: whole items of lists, small fields of objects, ends of long strings.

What is kept is the source's own text, so numbers, escapes and layout stay as they were.
"""

import json
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ctxkit.results._base import Ruler
from ctxkit.results.json_walk import Child, Container, JsonWalker, NotJsonError, decode_string
from ctxkit.results.sharing import share

_DEPTH: Final = 16
"""Deepest level at which something is cut; what is too big deeper down is left to the text shortener."""
_LEAST_CHARS: Final = 24
"""Characters that each member of an object must be able to have; else only its first members are kept."""
_ESCAPED_CHARS: Final = 6
"""Characters of the longest escape of one UTF-16 unit."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One place where something was left out."""

    path: str
    """Where, as `data.results[0]`; empty at the top."""
    kept: int
    """Items or characters kept."""
    total: int
    """Items or characters there were."""
    unit: str
    """`items`, `members` or `characters`."""
    removed_chars: int
    """How much was left out."""
    offset: int | None = None
    """Where in the text the first item stands that was left out."""
    in_part: bool = False
    """The one item that was kept was shortened itself."""

    def words(self) -> str:
        """Say what is kept."""
        of = f" of {self.path}" if self.path else ""
        if self.unit == "characters":
            return f"{self.kept} of {self.total} characters{of}"
        if self.in_part:
            return f"part of the first of {self.total} {self.unit}{of}"
        return f"first {self.kept} of {self.total} {self.unit}{of}"


class JsonFitter:
    """Fits values of one text into a number of characters.

    Args:
        text: The JSON text.
        walker: Walks it.
        ruler: Cuts strings.
        tokens_per_char: How many tokens a character of this text takes, above 0.
        head_ratio: Share of a cut string that comes from its start, (0, 1].
        note: Gives the note that stands in a cut string, from the number of characters left out.
        keeps_keys: Keep every key of the top-level object, and leave a note where a list was cut.
    """

    def __init__(
        self,
        text: str,
        walker: JsonWalker,
        *,
        ruler: Ruler,
        tokens_per_char: float,
        head_ratio: float,
        note: Callable[[int], str],
        keeps_keys: bool = False,
    ) -> None:
        self._text = text
        self._walker = walker
        self._ruler = ruler
        self._tokens_per_char = tokens_per_char
        self._head_ratio = head_ratio
        self._note = note
        self._keeps_keys = keeps_keys
        self.cuts: list[Cut] = []

    async def fit(self, start: int, end: int, chars: int, *, path: str = "", depth: int = 0) -> str:
        """Return the value at `start` in about so many characters; a number or a constant is never cut.

        Raises:
            NotJsonError: It is not valid, or too deep.
        """
        source = self._text[start : min(end, start + chars + 1)]
        if end - start <= chars or source[0] not in '[{"':
            return self._text[start:end]
        if depth > _DEPTH:
            raise NotJsonError
        if source[0] == '"':
            return await self._string(start, end, chars, path=path)
        container = await self._walker.container(start)
        if source[0] == "[":
            return await self._first(start, container, chars, path=path, depth=depth)
        return await self._object(start, container, chars, path=path, depth=depth)

    async def _first(self, start: int, container: Container, chars: int, *, path: str, depth: int) -> str:
        """Keep the first whole children that fit, of the first one at least a part."""
        text, children = self._text, container.children
        if not children:
            return text[start] + text[container.end - 1]
        unit = "members" if text[start] == "{" else "items"
        blank = text[max(start + 1, container.end - 64) : container.end - 1]
        closing = blank[len(blank.rstrip(" \t\r\n")) :] + text[container.end - 1]
        note = f", {_quote(self._note(container.end - start))}" if self._keeps_keys and unit == "items" else ""
        kept = bisect_right(children, start + chars - len(closing) - len(note), key=lambda child: child.end)
        if kept:
            body = text[start : children[kept - 1].end]
        else:
            first = children[0]
            opening = text[start : first.start]
            room = max(1, chars - len(opening) - len(closing) - len(note))
            inner = f"{path}.{first.key}".lstrip(".") if first.key else f"{path}[0]"
            body = opening + await self.fit(first.start, first.end, room, path=inner, depth=depth + 1)
        if max(kept, 1) == container.total:
            return body + closing
        self.cuts.append(
            Cut(
                path=path,
                kept=max(kept, 1),
                total=container.total,
                unit=unit,
                removed_chars=container.end - start - len(body),
                offset=children[kept].begin if kept < len(children) else None,
                in_part=not kept,
            )
        )
        return body + note + closing

    async def _object(self, start: int, container: Container, chars: int, *, path: str, depth: int) -> str:
        """Keep all members and make the biggest values smaller; of a wide object keep the first members."""
        text, children = self._text, container.children
        needs = [child.end - child.start for child in children]
        room = chars - (container.end - start - sum(needs))
        has_room = len(children) == container.total and room >= sum(min(need, _LEAST_CHARS) for need in needs)
        if not has_room:
            if self._keeps_keys and not depth:
                raise NotJsonError
            return await self._first(start, container, chars, path=path, depth=depth)
        parts: list[str] = []
        done = start
        for child, given in zip(children, share(needs, room), strict=True):
            parts.append(text[done : child.start])
            parts.append(await self._member(child, given, path=path, depth=depth))
            done = child.end
        parts.append(text[done : container.end])
        return "".join(parts)

    async def _member(self, child: Child, chars: int, *, path: str, depth: int) -> str:
        inner = f"{path}.{child.key}" if path else child.key
        return await self.fit(child.start, child.end, chars, path=inner, depth=depth + 1)

    async def _string(self, start: int, end: int, chars: int, *, path: str) -> str:
        """Keep both ends of a string, cut where no grapheme parts, with a note in between."""
        source = self._text
        total = end - start - 2
        note = self._note(total)
        room = max(0, chars - len(note) - 2)
        head_chars = int(room * self._head_ratio)
        tail_chars = room - head_chars
        head_source = source[start + 1 : min(end - 1, start + 1 + _ESCAPED_CHARS * head_chars)]
        tail_source = source[max(start + 1, end - 1 - _ESCAPED_CHARS * tail_chars) : end - 1]
        head = await self._end(_decode_head(head_source), self._tokens(head_chars), from_start=True)
        tail = await self._end(_decode_tail(tail_source), self._tokens(tail_chars), from_start=False)
        is_escaped = "\\u" in head_source or "\\u" in tail_source
        head, tail = _quote(head, ascii_only=is_escaped)[1:-1], _quote(tail, ascii_only=is_escaped)[1:-1]
        kept = len(head) + len(tail)
        if kept >= total:
            return source[start:end]
        self.cuts.append(Cut(path=path, kept=kept, total=total, unit="characters", removed_chars=max(0, total - kept)))
        return f'"{head}{_quote(self._note(total - kept))[1:-1]}{tail}"'

    def _tokens(self, chars: int) -> int:
        return int(chars * self._tokens_per_char)

    async def _end(self, decoded: str, tokens: int, *, from_start: bool) -> str:
        """Cut a decoded end of a string to its tokens; its far side is no place to cut, so some is always cut off."""
        if not decoded or tokens < 1:
            return ""
        cut = self._ruler.head if from_start else self._ruler.tail
        kept = await cut(decoded, tokens)
        return kept if len(kept) < len(decoded) else await cut(decoded, max(1, await self._ruler.count(decoded) - 1))


def _quote(text: str, *, ascii_only: bool = False) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)


def _decode_head(source: str) -> str:
    """Decode the start of a string's inside; an escape that it parts is left out."""
    for spare in range(_ESCAPED_CHARS + 1):
        try:
            decoded = decode_string(source[: len(source) - spare])
        except NotJsonError:
            continue
        return decoded[:-1] if "\ud800" <= decoded[-1:] <= "\udbff" else decoded
    raise NotJsonError


def _decode_tail(source: str) -> str:
    """Decode the end of a string's inside, from the first place that is certainly between two characters."""
    last_slash = -1
    for at in range(min(len(source), 64)):
        if source[at] == "\\":
            if at and last_slash != at - 1:
                decoded = decode_string(source[at:])
                break
            last_slash = at
        elif at - last_slash > _ESCAPED_CHARS:
            decoded = decode_string(source[at:])
            break
    else:
        return ""
    return decoded[1:] if "\udc00" <= decoded[:1] <= "\udfff" else decoded
