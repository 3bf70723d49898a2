"""Shortens diffs: the headers of all files as far as they fit, and whole hunks. No line is changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ctxkit.results._base import PIECE_CHARS, Kind, Ruler, Shortened
from ctxkit.results.blocks import line_blocks

_TRIES: Final = 4
_HEADER_SHARE: Final = 0.5
"""Most of the budget that file headers take."""
_GAP_CHARS: Final = 32
"""Characters of a line that says what was left out, about."""
_START: Final = re.compile(r"^(?:(diff --git |Index: )|(--- )|(@@ ))", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A file's header or one hunk, by its place in the text."""

    start: int
    end: int
    is_header: bool


class DiffShortener:
    """Keeps headers and whole hunks, in their order."""

    kind: Final = Kind.DIFF

    async def shorten(
        self,
        text: str,
        *,
        limit_tokens: int,
        head_ratio: float,  # noqa: ARG002 - the protocol's; a diff has no two ends
        ruler: Ruler,
        tool_name: str,  # noqa: ARG002 - the protocol's; a diff is cut alike whatever gave it
    ) -> Shortened | None:
        """Keep headers and hunks; see `Shortener.shorten`."""
        parts = await _split(text)
        hunks = sum(1 for part in parts if not part.is_header)
        chars = len(await ruler.head(text, limit_tokens))
        for _ in range(_TRIES):
            chosen = _choose(parts, chars)
            kept_hunks = sum(1 for index in chosen if not parts[index].is_header)
            if not kept_hunks or len(chosen) == len(parts):
                return None
            kept = _render(text, parts, chosen)
            tokens = await ruler.count(kept)
            if tokens <= limit_tokens:
                files = sum(1 for part in parts if part.is_header)
                kept_files = len(chosen) - kept_hunks
                shown = f"{kept_hunks} of {hunks} hunks, headers of {kept_files} of {files} files"
                return Shortened(head=kept, tail="", kind=self.kind, shown=shown)
            chars = int(chars * 0.95 * limit_tokens / tokens)
        return None


async def _split(text: str) -> list[_Part]:
    """Split a diff into headers and hunks; what stands before the first file counts as a header."""
    starts: list[tuple[int, bool]] = [(0, True)]
    in_git_header = False
    async for begin, end in line_blocks(text, 0, len(text)):
        for found in _START.finditer(text, begin, min(end, begin + PIECE_CHARS)):
            if found[3] is not None:
                in_git_header = False
                starts.append((found.start(), False))
            elif found[1] is not None or (not in_git_header and _opens_file(text, found.end())):
                in_git_header = found[1] is not None
                if found.start():
                    starts.append((found.start(), True))
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return [_Part(start=start, end=end, is_header=head) for (start, head), end in zip(starts, ends, strict=True)]


def _opens_file(text: str, at: int) -> bool:
    """Tell whether the line at `at` opens a file: removed lines can look like a header, but no hunk follows them."""
    second = text.find("\n", at) + 1
    third = text.find("\n", second) + 1
    return 0 < second < third and text.startswith("+++ ", second) and text.startswith("@@ ", third)


def _choose(parts: Sequence[_Part], chars: int) -> set[int]:
    """Choose headers first, then hunks in order; each costs a gap line too."""
    chosen: set[int] = set()
    left = int(chars * _HEADER_SHARE)
    for index, part in enumerate(parts):
        cost = part.end - part.start
        if part.is_header and cost <= left:
            chosen.add(index)
            left -= cost
    left += chars - int(chars * _HEADER_SHARE)
    for index, part in enumerate(parts):
        cost = part.end - part.start + _GAP_CHARS
        if not part.is_header and cost <= left:
            chosen.add(index)
            left -= cost
    return chosen


def _render(text: str, parts: Sequence[_Part], chosen: set[int]) -> str:
    """Join the chosen parts, with a line for what is missing between them."""
    lines: list[str] = []
    missing_hunks = missing_lines = 0
    for index, part in enumerate(parts):
        if index in chosen:
            if missing_lines:
                lines.append(_gap(missing_hunks, missing_lines))
                missing_hunks = missing_lines = 0
            lines.append(text[part.start : part.end])
        else:
            missing_hunks += not part.is_header
            missing_lines += text.count("\n", part.start, part.end) or 1
    if missing_lines:
        lines.append(_gap(missing_hunks, missing_lines))
    return "".join(lines)


def _gap(hunks: int, lines: int) -> str:
    return f"… {hunks} hunks, {lines} lines …\n"
