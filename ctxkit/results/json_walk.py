"""Walks big JSON text item by item without decoding it in one go.

Items of ordinary size are decoded by the standard library, which proves them valid; only what is larger than a window
is stepped over by its quotes and brackets. No call works on more than a window at once.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from ctxkit.results._base import Pace

_WINDOW_CHARS: Final = 64_000
"""Most characters decoded by one call, 1 to 2 ms."""
_MEMBERS: Final = 1_000
"""Children that are decoded one by one, as are those that begin within the reach; the others are only counted."""
_CLOSER: Final = {"[": "]", "{": "}"}

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_WITHIN: Final = r'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+'
_STRUCTURE: Final = re.compile(
    rf'"[^"\\]*(?:\\.[^"\\]*)*("?)|\{{{_WITHIN}\}}|\[{_WITHIN}\]|,[^"\[\]{{}}]*+|[\[\]{{}}]',
    re.DOTALL,
)
"""A string, whole or cut off by the window's end; a container without containers in it; commas; or a bracket."""


class NotJsonError(Exception):
    """The text is no JSON, or such that no strict reader would take it."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """One item of an array or member of an object, by its place in the text."""

    begin: int
    """Where it begins: at the key in an object, else at the value."""
    start: int
    """Where its value begins."""
    end: int
    """Behind its value."""
    key: str
    """The decoded key; empty in an array."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """An array or object: the places of its first children, and how many there are."""

    children: tuple[Child, ...]
    """The first ones, all of them where they are not many."""
    total: int
    end: int
    """Behind the closing bracket."""


def skip_space(text: str, at: int) -> int:
    """Return the place of the next character that is no JSON white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def decode_string(source: str) -> str:
    """Return what stands between the quotes of a JSON string, decoded.

    Raises:
        NotJsonError: It is not the inside of a JSON string.
    """
    try:
        decoded = json.loads(f'"{source}"')
    except ValueError as exc:
        raise NotJsonError from exc
    return str(decoded)


class JsonWalker:
    """Finds the children of containers in one text; each container is walked once.

    Args:
        text: The JSON text.
        reach: Children that begin within so many characters from their container's start are all noted.
    """

    def __init__(self, text: str, *, reach: int) -> None:
        self._text = text
        self._reach = reach
        self._pace = Pace()
        self._buffer = ""
        self._buffer_start = 0
        self._known: dict[int, Container] = {}
        self._ends: dict[int, int] = {}

    async def value_end(self, start: int) -> int:
        """Return the place behind the value that begins at `start`.

        Raises:
            NotJsonError: There is no value, or none that ends.
        """
        end = self._decode(start)
        if end is None:
            self._buffer_start = start
            self._buffer = self._text[start : start + _WINDOW_CHARS]
            await self._pace.after(_WINDOW_CHARS)
            end = self._decode(start)
        if end is None:
            end = await self._step_over(start)
            if end - start < _WINDOW_CHARS:
                raise NotJsonError
        await self._pace.after(end - start)
        return end

    async def prove(self, start: int) -> None:
        """Make sure that the value that begins at `start` is valid all through.

        Raises:
            NotJsonError: It is not.
        """
        end = await self.value_end(start)
        if end - start < _WINDOW_CHARS:
            return
        if self._text[start] == '"':
            decode_string(self._text[start + 1 : end - 1])
            return
        for child in (await self.container(start)).children:
            if child.end - child.start >= _WINDOW_CHARS:
                await self.prove(child.start)

    async def container(self, start: int) -> Container:
        """Return the children of the array or object that begins at `start`.

        Raises:
            NotJsonError: It is not valid.
        """
        known = self._known.get(start)
        if known is None:
            known = self._known[start] = await self._walk(start)
        return known

    def _decode(self, start: int) -> int | None:
        """Return a value's end by decoding it within the buffer, or `None` where it does not end in there."""
        offset = start - self._buffer_start
        if not 0 <= offset < len(self._buffer):
            return None
        is_whole = self._buffer_start + len(self._buffer) == len(self._text)
        try:
            _, end = _DECODER.raw_decode(self._buffer, offset)
        except json.JSONDecodeError as exc:
            if is_whole:
                raise NotJsonError from exc
            return None
        except (ValueError, RecursionError) as exc:
            raise NotJsonError from exc
        return self._buffer_start + end if end < len(self._buffer) or is_whole else None

    async def _step_over(self, start: int) -> int:
        text = self._text
        if text[start] == '"':
            return await self._string_end(start)
        if text[start] not in "[{":
            raise NotJsonError
        known = self._ends.get(start)
        return known or (await self._scan(start + 1, opened_at=start))[1]

    async def _scan(self, at: int, *, opened_at: int) -> tuple[int, int]:
        """Find the end of an open container by its brackets.

        Args:
            at: A place inside it, between two tokens and in none of its own containers.
            opened_at: The container's bracket.

        Returns:
            How many commas follow in the container itself, and the place behind its closing bracket.
        """
        text = self._text
        opened = [opened_at]
        commas = 0
        while at < len(text):
            stop = min(at + _WINDOW_CHARS, len(text))
            begun = at
            for found in _STRUCTURE.finditer(text, at, stop):
                char = text[found.start()]
                if char == '"':
                    if not found[1]:
                        stop = await self._string_end(found.start())
                        break
                elif char == ",":
                    commas += text.count(",", found.start(), found.end()) if len(opened) == 1 else 0
                elif char in "[{":
                    if found.end() == found.start() + 1:
                        opened.append(found.start())
                elif _CLOSER[text[opened[-1]]] != char:
                    raise NotJsonError
                elif len(opened) == 1:
                    return commas, found.end()
                else:
                    self._note_end(opened.pop(), found.end())
            await self._pace.after(stop - begun)
            at = stop
        raise NotJsonError

    def _note_end(self, start: int, end: int) -> None:
        if end - start >= _WINDOW_CHARS:
            self._ends[start] = end

    async def _string_end(self, start: int) -> int:
        text = self._text
        at = start + 1
        while True:
            quote = text.find('"', at)
            if quote < 0:
                raise NotJsonError
            before = text[at:quote]
            await self._pace.after(len(before) + 8)
            at = quote + 1
            if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
                return at

    async def _walk(self, start: int) -> Container:
        text = self._text
        is_object = text[start] == "{"
        closer = _CLOSER[text[start]]
        children: list[Child] = []
        at = skip_space(text, start + 1)
        if text[at : at + 1] == closer:
            return Container(children=(), total=0, end=at + 1)
        while len(children) < _MEMBERS or at - start <= self._reach:
            begin = at
            key = ""
            if is_object:
                key, at = await self._key(begin)
            end = await self.value_end(at)
            children.append(Child(begin=begin, start=at, end=end, key=key))
            at = skip_space(text, end)
            mark = text[at : at + 1]
            if mark == closer:
                return Container(children=tuple(children), total=len(children), end=at + 1)
            if mark != ",":
                raise NotJsonError
            at = skip_space(text, at + 1)
        commas, end = await self._scan(at, opened_at=start)
        return Container(children=tuple(children), total=len(children) + commas + 1, end=end)

    async def _key(self, begin: int) -> tuple[str, int]:
        """Return a member's key and the place of its value."""
        text = self._text
        if text[begin : begin + 1] != '"':
            raise NotJsonError
        end = await self.value_end(begin)
        colon = skip_space(text, end)
        if text[colon : colon + 1] != ":" or end - begin > _WINDOW_CHARS:
            raise NotJsonError
        return json.loads(text[begin:end]), skip_space(text, colon + 1)
