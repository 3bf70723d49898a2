"""Shortens logs: the first lines, error lines with a little round them, and the tail. No line is changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ctxkit.results._base import PIECE_CHARS, Kind, Ruler, Shortened
from ctxkit.results.blocks import line_blocks
from ctxkit.results.text import start_at_boundary

_HEAD_SHARE: Final = 0.15
_ERROR_SHARE: Final = 0.45
"""Shares of the budget for the first lines and for error lines; the tail has the rest, and what these leave."""
_LINES_BEFORE: Final = 1
_LINES_AFTER: Final = 2
_TRACE_LINES: Final = 40
"""Most lines of one traceback."""
_LINE_CHARS: Final = 2_000
"""An error line longer than this is left out: it is data, and it would take the place of many."""
_MOST_CHARS: Final = 200_000
"""Once error lines have so many characters no more are gathered."""
_GAP_TOKENS: Final = 8
"""Tokens of a line that says how many were left out."""

_WORDS: Final = ("error", "exception", "traceback", "fail", "fatal", "critical", "panic", "abort", "assert")
_ERROR: Final = re.compile(
    r"\b(?:errors?|exception|traceback|fail(?:ed|ure|ures)?|fatal|critical|panic(?:ked)?|abort(?:ed)?)\b"
    r"|[a-z](?:Error|Exception|Failure)\b|\b(?:E_|ERR!)|\bassert(?:ion)?\b",
    re.IGNORECASE,
)
_NO_ERROR: Final = re.compile(
    r"\b(?:0|no) (?:errors?|fail(?:ed|ures?))\b|\b(?:errors?|failed|failures?)[=:] ?0\b", re.IGNORECASE
)
_TRACE: Final = re.compile(r"Traceback \(most recent call last\)|^\s*(?:Caused by|thread '.*' panicked)")
_VARIES: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8,}|\d+")


@dataclass(frozen=True, kw_only=True)
class _Passage:
    """Error lines that stand together."""

    line: int
    """Index of its first line, counted in the scanned part."""
    lines: tuple[str, ...]
    are_errors: tuple[bool, ...]
    """For each line whether it tells an error; the others stand round one."""

    def before(self, line: int) -> "_Passage":
        """Return the part of it that stands before a line."""
        count = line - self.line
        return replace(self, lines=self.lines[:count], are_errors=self.are_errors[:count])


class LogShortener:
    """Keeps what tells how a run went: its start, its errors and its end."""

    kind: Final = Kind.LOG

    async def shorten(
        self,
        text: str,
        *,
        limit_tokens: int,
        head_ratio: float,
        ruler: Ruler,
        tool_name: str,  # noqa: ARG002 - the protocol's; a log is cut alike whatever gave it
    ) -> Shortened | None:
        """Keep first lines, error lines and tail; see `Shortener.shorten`.

        The shares are a log's own, for its tail matters most. Without errors a log is as good as any text; nor is one
        made where a `head_ratio` of 1 asks for no tail.
        """
        if head_ratio >= 1:
            return None
        head = await ruler.head(text, max(1, int(limit_tokens * _HEAD_SHARE)))
        head = head[: head.rfind("\n") + 1]
        tail_tokens = max(1, limit_tokens - int(limit_tokens * (_HEAD_SHARE + _ERROR_SHARE)))
        tail = await _whole_tail(text, tail_tokens, ruler)
        end = len(text) - len(tail)
        if end <= len(head) or not tail:
            return None
        passages, total = await _scan(text, len(head), end)
        chosen, spent = await _choose(passages, int(limit_tokens * _ERROR_SHARE), ruler)
        if not chosen:
            return None
        spare = int(limit_tokens * _ERROR_SHARE) - spent
        if spare > _GAP_TOKENS:
            tail = await _whole_tail(text, tail_tokens + spare - _GAP_TOKENS, ruler)
            total -= text.count("\n", len(text) - len(tail), end)
            chosen = [passage.before(total) for passage in chosen if passage.line < total]
        body = head + _with_gaps(chosen, total)
        errors = sum(sum(passage.are_errors) for passage in chosen)
        tail_lines = _line_count(tail)
        every = _line_count(head) + total + tail_lines
        if len(body) + len(tail) >= len(text):
            return None
        said = f"{errors} error lines and " if errors else f"first {_line_count(head)} and "
        shown = f"{said}the last {tail_lines} lines of {every}"
        offset = None if errors else len(head)
        return Shortened(head=body, tail=tail, kind=self.kind, shown=shown, offset=offset)


async def _whole_tail(text: str, tokens: int, ruler: Ruler) -> str:
    """Return the last lines; of a last line that is too long its end."""
    tail = await ruler.tail(text, tokens)
    start = len(text) - len(tail)
    return start_at_boundary(tail, text[max(0, start - 1) : start], lines_only="\n" in tail.rstrip("\r\n"))


async def _scan(text: str, start: int, end: int) -> tuple[list[_Passage], int]:
    """Return the error passages of a part, each kind of error once, and the number of its lines."""
    passages: list[_Passage] = []
    seen: set[str] = set()
    total = chars = 0
    async for begin, stop in line_blocks(text, start, end):
        if stop - begin > PIECE_CHARS:
            total += 1
            continue
        block = text[begin:stop]
        if chars < _MOST_CHARS and _has_word(block):
            found = _passages(block.split("\n"), seen, first_line=total)
            passages += found
            chars += sum(len(line) for passage in found for line in passage.lines)
        total += block.count("\n") + (not block.endswith("\n"))
    return passages, total


def _has_word(block: str) -> bool:
    lowered = block.lower()
    return any(word in lowered for word in _WORDS)


def _passages(lines: Sequence[str], seen: set[str], *, first_line: int) -> list[_Passage]:
    """Gather the error lines of a block that were not seen in this form, with the lines round them."""
    last = len(lines) - (not lines[-1])
    keep: dict[int, bool] = {}
    index = 0
    while index < last:
        line = lines[index]
        stop = index + 1
        if _is_error(line):
            form = _VARIES.sub("#", line.strip())
            if form not in seen:
                seen.add(form)
                stop = _trace_end(lines, index, last) if _TRACE.search(line) else index + 1
                around = range(max(0, index - _LINES_BEFORE), min(last, stop + _LINES_AFTER))
                for near in around:
                    if len(lines[near]) <= _LINE_CHARS:
                        keep[near] = keep.get(near, False) or index <= near < stop
        index = stop
    return _joined(lines, keep, first_line=first_line)


def _is_error(line: str) -> bool:
    return len(line) <= _LINE_CHARS and _ERROR.search(line) is not None and _NO_ERROR.search(line) is None


def _trace_end(lines: Sequence[str], start: int, last: int) -> int:
    """Return the index behind a traceback: its indented lines and the line that ends it."""
    at = start + 1
    while at < min(last, start + _TRACE_LINES) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return min(at + 1, last)


def _joined(lines: Sequence[str], keep: dict[int, bool], *, first_line: int) -> list[_Passage]:
    groups: list[list[int]] = []
    for index in sorted(keep):
        if groups and groups[-1][-1] == index - 1:
            groups[-1].append(index)
        else:
            groups.append([index])
    return [
        _Passage(
            line=first_line + group[0],
            lines=tuple(lines[index] for index in group),
            are_errors=tuple(keep[index] for index in group),
        )
        for group in groups
    ]


async def _choose(passages: Sequence[_Passage], tokens: int, ruler: Ruler) -> tuple[list[_Passage], int]:
    """Choose the passages that fit, the first and the last ones before those between; return them and their tokens."""
    inwards = sorted(range(len(passages)), key=lambda index: min(index, len(passages) - 1 - index))
    chosen: list[int] = []
    spent = 0
    for index in inwards:
        cost = await ruler.count("\n".join(passages[index].lines) + "\n") + _GAP_TOKENS
        if spent + cost <= tokens:
            chosen.append(index)
            spent += cost
        elif tokens - spent < 2 * _GAP_TOKENS:
            break
    return [passages[index] for index in sorted(chosen)], spent


def _with_gaps(passages: Sequence[_Passage], total: int) -> str:
    """Render passages with a line that says how many lines are missing wherever some are."""
    parts: list[str] = []
    at = 0
    for passage in passages:
        if passage.line > at:
            parts.append(f"… {passage.line - at} lines …\n")
        parts += (line + "\n" for line in passage.lines)
        at = passage.line + len(passage.lines)
    if passages and total > at:
        parts.append(f"… {total - at} lines …\n")
    return "".join(parts)


def _line_count(text: str) -> int:
    return text.count("\n") + bool(text and not text.endswith("\n"))
