"""Shortens tables: the header and whole rows from both ends."""

from typing import Final

from ctxkit.results._base import PIECE_CHARS, Kind, Pace, Ruler, Shortened
from ctxkit.results.kinds import table_header

_SAMPLE_CHARS: Final = 8_000


class TableShortener:
    """Keeps the header, the first and the last rows; a row that spans lines in quotes stays whole."""

    kind: Final = Kind.TABLE

    async def shorten(
        self,
        text: str,
        *,
        limit_tokens: int,
        head_ratio: float,
        ruler: Ruler,
        tool_name: str,  # noqa: ARG002 - the protocol's; a table is cut alike whatever gave it
    ) -> Shortened | None:
        """Keep header and rows; see `Shortener.shorten`."""
        header_rows = table_header(text[:_SAMPLE_CHARS].split("\n")[:-1])
        head_tokens = max(1, round(limit_tokens * head_ratio))
        head = await ruler.head(text, head_tokens)
        tail = await ruler.tail(text, limit_tokens - head_tokens) if head_tokens < limit_tokens else ""
        quote_count, newlines = await _count(text)
        quoted = quote_count > 0 and quote_count % 2 == 0
        head = _whole_rows_at_start(head, quoted=quoted)
        tail = _whole_rows_at_end(tail, quoted=quoted)
        total = newlines + (not text.endswith("\n")) - header_rows
        first = _rows(head, quoted=quoted) - header_rows
        last = _rows(tail, quoted=quoted)
        if first < 1 or header_rows < 1 or first + last >= total:
            return None
        ends = f"first {first} and last {last}" if last else f"first {first}"
        shown = f"header, {ends} of {total} rows"
        return Shortened(head=head, tail=tail, kind=self.kind, shown=shown, offset=len(head))


async def _count(text: str) -> tuple[int, int]:
    """Return the number of quotes, and of line ends outside of them (all line ends where quotes do not pair)."""
    quotes = outside = every = 0
    pace = Pace()
    for start in range(0, len(text), PIECE_CHARS):
        block = text[start : start + PIECE_CHARS]
        every += block.count("\n")
        parts = block.split('"')
        outside += sum(part.count("\n") for part in parts[quotes % 2 :: 2])
        quotes += len(parts) - 1
        await pace.after(PIECE_CHARS)
    return quotes, outside if quotes % 2 == 0 else every


def _rows(text: str, *, quoted: bool) -> int:
    parts = text.split('"')[::2] if quoted else [text]
    return sum(part.count("\n") for part in parts) + bool(text and not text.endswith("\n"))


def _whole_rows_at_start(head: str, *, quoted: bool) -> str:
    cut = len(head)
    while (cut := head.rfind("\n", 0, cut) + 1) > 0:
        if not quoted or head.count('"', 0, cut) % 2 == 0:
            return head[:cut]
        cut -= 1
    return ""


def _whole_rows_at_end(tail: str, *, quoted: bool) -> str:
    cut = 0
    while cut := tail.find("\n", cut) + 1:
        if not quoted or tail.count('"', cut) % 2 == 0:
            return tail[cut:]
    return ""
