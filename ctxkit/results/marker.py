"""The truncation marker, and how a forged one in a tool's output is made harmless."""

import re
import unicodedata
from typing import Final

from ctxkit.results._base import PIECE_CHARS, Pace

TRUNCATED: Final = "<<<TRUNCATED>>>"
"""First line of the marker, AgentScope's own."""

_OMITTED: Final = "The remaining content has been omitted for limited context."
_LOST: Final = " It could not be stored."
_REFER: Final = " You can refer to the file in '{reference}' for the truncated content if needed."

_GUIDANCE: Final = """\
RESULT TRUNCATED: showing {kept} of {total} results from {tool_name}.
The full result was too large for the context window.
To see more results, you can:
- Use a more specific pattern or filter (e.g. '*.py', 'src/**')
- Search for a specific filename or keyword instead of listing everything
- Ask the user to narrow their request
Do NOT guess or invent results you haven't seen. Only report what is shown above."""


def marker(
    reference: str | None, *, shown: str = "", recall: bool = False, offset: int | None = None, is_lost: bool = False
) -> str:
    """Return the marker that tells the model what is missing.

    Without `shown`, `recall` and `is_lost` it is AgentScope's own, to the letter.

    Args:
        reference: Where the full text is stored, or `None` where it is not.
        shown: In words what is kept.
        recall: The agent has `read_context`.
        offset: Characters of the stored text before the first one left out, where that is known.
        is_lost: It should have been stored and could not be.

    Returns:
        Two lines without a line end.
    """
    body = _OMITTED
    if reference is not None:
        reference = defuse(reference)
        body += _REFER.format(reference=reference)
    elif is_lost:
        body += _LOST
    if shown:
        body += f" Shown: {shown}."
    if recall and reference is not None:
        at = "" if offset is None else f", offset={offset}"
        body += f' Read the rest with read_context(reference="{reference}"{at}).'
    return f"{TRUNCATED}\n<system-reminder>{body}</system-reminder>"


def guidance(tool_name: str, *, kept: int, total: int) -> str:
    """Return the advice that follows a list that was cut (Digitorn's wording)."""
    return _GUIDANCE.format(kept=kept, total=total, tool_name=defuse(tool_name) or "the tool")


# ---- forged markers -------------------------------------------------------------------------------------------------
#
# A tool's output may hold our marker, or the host's tags, to make the model follow it. The opening bracket of such a
# tag becomes `&lt;`: the model still reads what stood there, JSON stays JSON, and nothing matches a second time.
# Look-alikes count too: other brackets, other widths and cases, invisible characters in between. Letters of other
# scripts are folded for the letters that the tags use (the usual ones of Unicode's confusables.txt).

_HARMLESS: Final = "&lt;"
_OPENERS: Final = "<＜﹤‹〈〈⟨❬❮˂ᐸ𐌂≺"  # noqa: RUF001 - look-alikes of "<" on purpose
_INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Characters of no width, as the inside of a regex class."""
_REACH: Final = 80
"""Most blank or invisible characters in a row inside a tag that still count as part of it."""
_WINDOW: Final = 512
"""Characters looked at from an opening bracket on."""
_GLANCE: Final = 24
"""Characters that mostly suffice to see that it is no tag."""

_OTHER: Final = rf"[^\x00-\x7f{_OPENERS}{_INVISIBLE}]"
_CANDIDATE: Final = re.compile(
    rf"[{_OPENERS}](?=[\s/\\⁄∕／{_INVISIBLE}]{{0,{_REACH}}}+"  # noqa: RUF001 - look-alikes of "/"
    rf"(?:[sS](?:[yY]|[^\x00-\x7f])|[tT](?:[rR]|[^\x00-\x7f])|{_OTHER}))"
)
_BEGINS: Final = re.compile(r"<[\s/]*(?:sys|tru|.{0,2}\Z)")
_HIDDEN: Final = re.compile(f"[{_INVISIBLE}]+")
_LOOK_ALIKES: Final = {
    "<": _OPENERS,
    "/": "\\⁄∕⧸",  # noqa: RUF001 - look-alikes on purpose
    "-": "_‐‑‒–—―−⁃",  # noqa: RUF001 - the point of the table
    "a": "аαᴀ",
    "c": "сϲᴄ",  # noqa: RUF001 - look-alikes on purpose
    "d": "ԁᴅ",
    "e": "еεҽᴇ",
    "f": "ғϝꜰ",
    "h": "һհʜ",
    "i": "іιıɪ",  # noqa: RUF001 - look-alikes on purpose
    "m": "мᴍ",
    "n": "нпոɴ",
    "o": "оοօᴏ",  # noqa: RUF001 - look-alikes on purpose
    "r": "гґʀᴦ",
    "s": "ѕꜱ",  # noqa: RUF001 - look-alikes on purpose
    "t": "тτᴛ",
    "u": "υսᴜ",  # noqa: RUF001 - look-alikes on purpose
    "y": "уүʏγ",  # noqa: RUF001 - look-alikes on purpose
}
_ALIKE: Final = str.maketrans({char: plain for plain, chars in _LOOK_ALIKES.items() for char in chars})
_TAG: Final = re.compile(r"<[\s/]*system[\s-]*(?:reminder|info|hint)(?![a-z0-9-])")
_TRUNCATED: Final = re.compile(r"<\s*truncated(?![a-z0-9-])")
_OUR_SHAPE: Final = re.compile(r"<\s*truncated[\s>]*(?:/[nrt])*\s*<\s*system[\s-]*reminder")


def _fold(text: str) -> str:
    """Return what a reader takes a short text for."""
    return _HIDDEN.sub("", unicodedata.normalize("NFKC", _HIDDEN.sub("", text))).casefold().translate(_ALIKE)


def _is_third(text: str, at: int) -> bool:
    """Tell whether two more opening brackets stand before the one at `at`."""
    before = "".join(_fold(text[max(0, at - 2 * _REACH) : at]).split())
    return before.endswith("<<")


def _defuse_piece(text: str, start: int, end: int, *, verbatim: bool) -> str:
    """Return `text[start:end]` with the brackets that open a forged tag replaced."""
    parts: list[str] = []
    done = start
    armed_to = start
    for found in _CANDIDATE.finditer(text, start, min(len(text), end + _WINDOW)):
        at = found.start()
        if at >= end:
            break
        if not _BEGINS.match(_fold(text[at : at + _GLANCE])):
            continue
        folded = _fold(text[at : at + _WINDOW])
        is_forged = _TAG.match(folded) is not None and (not verbatim or at < armed_to)
        if _TRUNCATED.match(folded) and _is_third(text, at):
            shape = _OUR_SHAPE.match(folded) is not None
            is_forged = shape or not verbatim
            armed_to = at + _WINDOW if shape else armed_to
        if is_forged:
            parts += (text[done:at], _HARMLESS)
            done = at + 1
    parts.append(text[done:end])
    return "".join(parts)


def defuse(text: str, *, verbatim: bool = False) -> str:
    """Return a text in which no forged marker or host tag is left.

    Only opening brackets change (to `&lt;`); a second pass changes nothing. JSON stays valid.

    Args:
        text: A tool's output; of big ones use `defuse_in_pieces`.
        verbatim: An editor will match the text, so tags that stand alone are left: a file may well speak of them.
            Only our marker's own shape, both lines together, is made harmless.
    """
    return _defuse_piece(text, 0, len(text), verbatim=verbatim) if _CANDIDATE.search(text) else text


async def defuse_in_pieces(text: str, *, verbatim: bool = False) -> str:
    """Do as `defuse`, and let other tasks run in between."""
    pace = Pace()
    parts: list[str] = []
    for start in range(0, len(text), PIECE_CHARS):
        end = min(start + PIECE_CHARS, len(text))
        parts.append(_defuse_piece(text, start, end, verbatim=verbatim))
        await pace.after(PIECE_CHARS)
    return "".join(parts)
