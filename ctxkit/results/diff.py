"""Shortens diffs: the headers of all files as far as they fit, and whole hunks. No line is changed."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ctxkit.results._base import PIECE_CHARS, Kind, Ruler, Shortened
from ctxkit.results.blocks import line_blocks

_TRIES: Final = 4
_HEADER_SHARE: Final = 0.5
"""Most of the budget that file headers take."""
_GAP_CHARS: Final = 32
"""Characters of a line that says what was left out, about."""
_LEAST_CHARS: Final = 64
"""With less room than this no further part is looked for."""
_TRAILER_CHARS: Final = 4_000
_TRAILER_SHARE: Final = 0.25
"""What follows the last hunk, an exit code for example, is kept up to this share of the budget."""
_IN_HUNK: Final = (" ", "+", "-", "\\", "@@")
_MOST_PARTS: Final = 20_000
"""Headers and hunks of which the place is noted; of what follows none would fit, it is only counted."""
_START: Final = re.compile(r"^(?:(diff --git |Index: )|(--- )|(@@ ))", re.MULTILINE)


class _Part(NamedTuple):
    """A file's header or one hunk, by its place in the text."""

    start: int
    end: int
    is_header: bool
    hunks_before: int


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
        trailer = _trailer(text)
        if trailer:
            trailer = await ruler.tail(trailer, int(limit_tokens * _TRAILER_SHARE))
            limit_tokens -= await ruler.count(trailer)
        text = text[: len(text) - len(trailer)]
        headers, hunks, counts = await _split(text)
        chars = len(await ruler.head(text, limit_tokens))
        for _ in range(_TRIES):
            kept_headers = _choose(headers, int(chars * _HEADER_SHARE), gap_chars=0)
            left = chars - sum(part.end - part.start for part in kept_headers)
            kept_hunks = _choose(hunks, left, gap_chars=_GAP_CHARS)
            if not kept_hunks or len(kept_headers) + len(kept_hunks) == sum(counts):
                return None
            kept = _render(text, sorted(kept_headers + kept_hunks), counts[1])
            tokens = await ruler.count(kept)
            if tokens <= limit_tokens:
                files = f"headers of {len(kept_headers)} of {counts[0]} files"
                shown = f"{len(kept_hunks)} of {counts[1]} hunks, {files}"
                return Shortened(head=kept, tail=trailer, kind=self.kind, shown=shown)
            chars = int(chars * 0.95 * limit_tokens / tokens)
        return None


def _trailer(text: str) -> str:
    """Return the lines behind the last hunk; a diff that is followed by much else has none."""
    start = max(0, len(text) - _TRAILER_CHARS)
    lines = text[start:].splitlines(keepends=True)
    for index in range(len(lines) - 1, 0, -1):
        if lines[index].startswith(_IN_HUNK):
            return "".join(lines[index + 1 :])
    return ""


async def _split(text: str) -> tuple[list[_Part], list[_Part], tuple[int, int]]:
    """Split a diff into headers and hunks, and count both; what stands before the first file belongs to its header."""
    headers: list[_Part] = []
    hunks: list[_Part] = []
    header_count = hunk_count = 0
    start, is_header, is_git, has_file = 0, True, False, False
    async for begin, stop in line_blocks(text, 0, len(text)):
        for found in _START.finditer(text, begin, min(stop, begin + PIECE_CHARS)):
            if found[2] is not None and (is_git or not _opens_file(text, found.end())):
                continue
            if has_file or found[3] is not None:
                _note(headers if is_header else hunks, _Part(start, found.start(), is_header, hunk_count))
                header_count += is_header
                hunk_count += not is_header
                start, is_header = found.start(), found[3] is None
            has_file = True
            is_git = is_git or found[1] is not None
    _note(headers if is_header else hunks, _Part(start, len(text), is_header, hunk_count))
    return headers, hunks, (header_count + is_header, hunk_count + (not is_header))


def _note(parts: list[_Part], part: _Part) -> None:
    if len(parts) < _MOST_PARTS:
        parts.append(part)


def _opens_file(text: str, at: int) -> bool:
    """Tell whether the line at `at` opens a file: removed lines can look like a header, but no hunk follows them."""
    second = text.find("\n", at) + 1
    third = text.find("\n", second) + 1
    return 0 < second < third and text.startswith("+++ ", second) and text.startswith("@@ ", third)


def _choose(parts: Sequence[_Part], chars: int, *, gap_chars: int) -> list[_Part]:
    """Choose the first parts that fit; a part that is too big is passed over, until there is little room left."""
    chosen: list[_Part] = []
    for part in parts:
        cost = part.end - part.start + gap_chars
        if cost <= chars:
            chosen.append(part)
            chars -= cost
        elif chars < _LEAST_CHARS:
            break
    return chosen


def _render(text: str, chosen: Sequence[_Part], hunks: int) -> str:
    """Join the chosen parts, with a line for what is missing between them."""
    parts: list[str] = []
    done = hunks_done = 0
    for part in chosen:
        if part.start > done:
            parts.append(_gap(part.hunks_before - hunks_done, text.count("\n", done, part.start)))
        parts.append(text[part.start : part.end])
        done = part.end
        hunks_done = part.hunks_before + (not part.is_header)
    if done < len(text):
        parts.append(_gap(hunks - hunks_done, text.count("\n", done) or 1))
    return "".join(parts)


def _gap(hunks: int, lines: int) -> str:
    return f"… {hunks} hunks, {lines} lines …\n"
