"""Shortens JSON: the first whole items that fit, valid all through, or whole lines of JSON Lines."""

import json
from typing import Final

from ctxkit.results._base import PIECE_CHARS, Kind, Pace, Ruler, Shortened
from ctxkit.results.json_fit import Cut, JsonFitter
from ctxkit.results.json_walk import JsonWalker, NotJsonError, skip_space

_TRIES: Final = 5
_LISTED_CUTS: Final = 3
"""Most places that are named in what is shown."""


def _note(chars: int) -> str:
    return f"…[{chars} characters omitted]…"


class JsonShortener:
    """Keeps the first whole items of the lists that make a JSON text big."""

    kind: Final = Kind.JSON

    async def shorten(
        self,
        text: str,
        *,
        limit_tokens: int,
        head_ratio: float,
        ruler: Ruler,
        tool_name: str,  # noqa: ARG002 - the protocol's; the advice that names the tool is the caller's
    ) -> Shortened | None:
        """Keep whole items; see `Shortener.shorten`."""
        start = skip_space(text, 0)
        if text[start : start + 1] not in {"[", "{"}:
            return None
        head = await ruler.head(text, limit_tokens)
        try:
            walker = JsonWalker(text, reach=4 * len(head) + start)
            end = (await walker.container(start)).end
            following = skip_space(text, end)
            if following == len(text):
                return await _document(text, start, end, walker, limit_tokens, head_ratio=head_ratio, ruler=ruler)
            if text[following] in "[{" and "\n" in text[end:following]:
                return await _lines(text, limit_tokens, head_ratio=head_ratio, ruler=ruler)
        except (NotJsonError, RecursionError):
            return None
        return None


async def _document(
    text: str, start: int, end: int, walker: JsonWalker, limit_tokens: int, *, head_ratio: float, ruler: Ruler
) -> Shortened | None:
    """Fit one JSON value: try a number of characters, measure, correct."""
    chars = max(2, len(await ruler.head(text[start:end], limit_tokens)))
    rate = limit_tokens / chars
    best: tuple[str, list[Cut]] | None = None
    for _ in range(_TRIES):
        fitter = JsonFitter(text, walker, ruler=ruler, tokens_per_char=rate, head_ratio=head_ratio, note=_note)
        kept = await fitter.fit(start, end, chars)
        tokens = await ruler.count(kept)
        if tokens <= limit_tokens and (best is None or len(kept) > len(best[0])):
            best = kept, fitter.cuts
        if 0.75 * limit_tokens <= tokens <= limit_tokens or chars <= 2:  # noqa: PLR2004 - "[]" has two
            break
        chars = max(2, int(chars * min(3.0, 0.95 * limit_tokens / max(1, tokens))))
    if best is None or not best[1]:
        return None
    kept, cuts = best
    await JsonWalker(kept, reach=len(kept)).prove(0)
    return _shortened(kept, cuts)


def _shortened(kept: str, cuts: list[Cut]) -> Shortened:
    cuts = sorted(cuts, key=lambda cut: -cut.removed_chars)
    lists = [cut for cut in cuts if cut.unit != "characters"]
    words = [cut.words() for cut in cuts[:_LISTED_CUTS]]
    if len(cuts) > _LISTED_CUTS:
        words.append(f"{len(cuts) - _LISTED_CUTS} more places shortened")
    return Shortened(
        head=kept,
        tail="",
        kind=Kind.JSON,
        shown=", ".join(words),
        items=(lists[0].kept, lists[0].total) if lists else None,
        offset=lists[0].offset if lists and len(cuts) == 1 and not lists[0].path else None,
    )


async def _lines(text: str, limit_tokens: int, *, head_ratio: float, ruler: Ruler) -> Shortened | None:
    """Keep whole lines from both ends; of a first line that is too big keep a part."""
    total = await _count_lines(text)
    head_tokens = max(1, round(limit_tokens * head_ratio))
    head = await ruler.head(text, head_tokens)
    head = head[: head.rfind("\n") + 1]
    if not head.strip():
        start = skip_space(text, 0)
        end = text.index("\n", start)
        line = text[start:end]
        walker = JsonWalker(line, reach=4 * limit_tokens)
        part = await _document(line, 0, len(line), walker, limit_tokens, head_ratio=head_ratio, ruler=ruler)
        if part is None:
            return None
        shown = f"part of the first of {total} lines ({part.shown})"
        return Shortened(head=part.head, tail="", kind=Kind.JSON, shown=shown, items=(1, total))
    tail = await ruler.tail(text, limit_tokens - head_tokens) if head_tokens < limit_tokens else ""
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail else ""
    first, last = await _prove_lines(head), await _prove_lines(tail)
    if first + last >= total:
        return None
    shown = f"first {first} and last {last} of {total} lines" if last else f"first {first} of {total} lines"
    return Shortened(head=head, tail=tail, kind=Kind.JSON, shown=shown, items=(first + last, total), offset=len(head))


async def _count_lines(text: str) -> int:
    """Count lines that are not blank."""
    pace = Pace()
    total, at, rest = 0, 0, ""
    while at < len(text):
        *lines, rest = (rest.strip()[:1] + text[at : at + PIECE_CHARS]).split("\n")
        total += sum(1 for line in lines if line.strip())
        at += PIECE_CHARS
        await pace.after(PIECE_CHARS)
    return total + bool(rest.strip())


async def _prove_lines(text: str) -> int:
    """Return the number of lines, all of them valid JSON.

    Raises:
        NotJsonError: One is not.
    """
    pace = Pace()
    lines = [line for line in text.split("\n") if line.strip()]
    for line in lines:
        try:
            json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise NotJsonError from exc
        await pace.after(len(line))
    return len(lines)
