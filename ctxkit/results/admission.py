"""Admits texts to the context: what stands there never takes more tokens than its limit, marker included."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ctxkit.config import MarkerPlacement
from ctxkit.results._base import Kind, Ruler, Shortened, Shortener
from ctxkit.results.diff import DiffShortener
from ctxkit.results.json_items import JsonShortener
from ctxkit.results.kinds import likely_kinds
from ctxkit.results.log import LogShortener
from ctxkit.results.marker import defuse_in_pieces, guidance, marker
from ctxkit.results.table import TableShortener
from ctxkit.results.text import TextShortener

_EXACT_CHARS_PER_TOKEN: Final = 8
"""Up to so many characters a token of the limit a text is counted; a longer one is only compared with its head."""
_TRIES: Final = 4
_GUIDANCE_SHARE: Final = 0.25
"""The advice on a cut list is left out where it would take more than this share of the limit."""
_SHOWN_TOKENS: Final = 32
"""Tokens set aside for the words that say what is shown."""

_SHORTENERS: Final[dict[Kind, Shortener]] = {
    Kind.JSON: JsonShortener(),
    Kind.TABLE: TableShortener(),
    Kind.LOG: LogShortener(),
    Kind.DIFF: DiffShortener(),
    Kind.TEXT: TextShortener(),
}
_BY_LINES: Final = TextShortener(lines_only=True)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much of one result may stand in the context, and how it is cut."""

    tokens: int
    """Most tokens, marker included; under about 60 the marker alone stands, and may take more."""
    head_ratio: float
    """Share of what is kept that comes from the start, (0, 1]."""
    placement: MarkerPlacement
    """Where the marker stands; at the `end` it is AgentScope's own to the letter, nothing is added to it."""
    verbatim: bool
    """An editor will match the text: it is cut by lines and not looked into."""
    recall: bool
    """The agent has `read_context`."""
    head_and_tail: bool = False
    """Beginning and end are what is kept, whatever kind of text it is."""
    is_lost: bool = False
    """The full text should have been stored and could not be, which the marker says."""
    clear_start: Callable[[str, int], int] | None = None
    """Returns the first place in a text, from one on, where no end of a secret stands: without its beginning nobody would
    know it for one, and it would be stored. `None` for cutting anywhere."""


async def fits(text: str, tokens: int, ruler: Ruler) -> bool:
    """Tell whether a text has at most so many tokens; the cost grows with `tokens`, not with the text."""
    if len(text) <= tokens * _EXACT_CHARS_PER_TOKEN:
        return await ruler.count(text) <= tokens
    return len(await ruler.head(text, max(0, tokens))) == len(text)


async def shorten_text(
    text: str, *, tool_name: str, limits: Limits, ruler: Ruler, reference: str | None, is_whole: bool = True
) -> str:
    """Return the text as it stands in the context: forged markers harmless, and cut if it is over its limit.

    Args:
        text: A tool result, a paste or a hint.
        tool_name: The tool that gave it, empty where there is none.
        limits: How much may stand.
        ruler: Measures and cuts.
        reference: Where the full text is stored, or `None` where it is not.
        is_whole: The text is all that is stored there, so that an offset into it can be named.

    Returns:
        At most `limits.tokens` tokens, or the marker alone where not even that fits.
    """
    if await fits(text, limits.tokens, ruler):
        harmless = await defuse_in_pieces(text, verbatim=limits.verbatim)
        if harmless == text or await fits(harmless, limits.tokens, ruler):
            return harmless
    note = _Note(tool_name=tool_name, reference=reference, limits=limits, names_offset=is_whole)
    return await _cut(text, note, ruler)


@dataclass(frozen=True, kw_only=True)
class _Note:
    """What is said about a text that was cut."""

    tool_name: str
    reference: str | None
    limits: Limits
    names_offset: bool

    def marker(self, *, shown: str = "", offset: int | None = None) -> str:
        if self.limits.placement == "end":
            return marker(self.reference, is_lost=self.limits.is_lost)
        offset = offset if self.names_offset else None
        return marker(
            self.reference, shown=shown, recall=self.limits.recall, offset=offset, is_lost=self.limits.is_lost
        )

    async def full(self, shortened: Shortened, ruler: Ruler) -> str:
        """Return the marker, behind the advice on a cut list where there is one and room for it."""
        said = self.marker(shown=shortened.shown, offset=shortened.offset)
        if shortened.items is None or self.limits.placement == "end":
            return said
        advice = guidance(self.tool_name, kept=shortened.items[0], total=shortened.items[1])
        has_room = await ruler.count(advice) <= _GUIDANCE_SHARE * self.limits.tokens
        return f"{advice}\n{said}" if has_room else said


async def _cut(text: str, note: _Note, ruler: Ruler) -> str:
    """Shorten by the first kind that can, and correct the budget until the whole is within the limit."""
    limits = note.limits
    spare = _SHOWN_TOKENS if limits.placement == "gap" else 0
    budget = limits.tokens - spare - await ruler.count(f"\n{note.marker(offset=len(text))}\n")
    for _ in range(_TRIES):
        if budget < 1:
            break
        shortened = await _shorten(text, budget, tool_name=note.tool_name, limits=limits, ruler=ruler)
        if shortened is None:
            budget = budget * 3 // 4
            continue
        shortened = _clear(text, shortened, limits)
        whole = await _assembled(shortened, await note.full(shortened, ruler), limits)
        over = await ruler.count(whole) - limits.tokens
        if over <= 0:
            return whole
        budget -= over + max(1, budget // 32)
    return marker(note.reference, is_lost=limits.is_lost)


async def _shorten(text: str, budget: int, *, tool_name: str, limits: Limits, ruler: Ruler) -> Shortened | None:
    kinds = (Kind.TEXT,) if limits.head_and_tail else likely_kinds(text, tool_name=tool_name, verbatim=limits.verbatim)
    for kind in kinds:
        shortener = _BY_LINES if limits.verbatim else _SHORTENERS[kind]
        shortened = await shortener.shorten(
            text, limit_tokens=budget, head_ratio=limits.head_ratio, ruler=ruler, tool_name=tool_name
        )
        if shortened is not None:
            return shortened
    return None


def _clear(text: str, shortened: Shortened, limits: Limits) -> Shortened:
    """Return a shortened text whose tail does not begin within a secret."""
    start = len(text) - len(shortened.tail)
    if limits.clear_start is None or not shortened.tail or not text.endswith(shortened.tail):
        return shortened
    at = limits.clear_start(text, start)
    return shortened if at == start else replace(shortened, tail=text[at:], shown="")


async def _assembled(shortened: Shortened, note: str, limits: Limits) -> str:
    """Return head, note and tail as one text, forged markers in head and tail made harmless."""
    head = await defuse_in_pieces(shortened.head, verbatim=limits.verbatim)
    tail = await defuse_in_pieces(shortened.tail, verbatim=limits.verbatim)
    if limits.placement == "end":
        kept = f"{_on_own_lines(head)}…\n{tail}" if head and tail else head or tail
        return f"{_on_own_lines(kept)}{note}"
    return f"{_on_own_lines(head)}{note}" + (f"\n{tail}" if tail else "")


def _on_own_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
