"""Claims: what a summary names letter by letter, and what therefore must stand in one of its sources."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

ClaimKind = Literal["path", "id", "number", "version"]

MARK: Final = "[unverified]"
"""Stands in a summary behind what none of its sources has."""

RECORD: Final = "[the record shows: "
"""Opens what the record shows, behind what says otherwise."""

_LEAST_CHARS: Final = 3
_MOST_CHARS: Final = 240
_MOST_CLAIMS: Final = 1200
"""More than a summary of a few thousand tokens can name."""
_ABOUT_CHARS: Final = 24

_UNIT_FAMILIES: Final[tuple[tuple[str, ...], ...]] = (
    ("%", "percent", "pct", "ratio"),
    ("b", "bytes", "byte", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "size"),
    ("tokens", "token", "tok", "k"),
    (
        "ms",
        "msec",
        "millisecond",
        "us",
        "ns",
        "s",
        "sec",
        "second",
        "min",
        "minute",
        "h",
        "hr",
        "hour",
        "time",
        "duration",
    ),
    ("day", "week", "month", "year"),
    ("px", "pt", "em", "width", "height"),
    ("hz", "khz", "mhz", "ghz", "fps", "rpm", "qps"),
    ("km", "cm", "mm", "kg", "mg", "ml"),
)
"""Units of one kind, and words that stand in their place in keys: `20 ms` may come of `"duration": 20`."""

_MONEY: Final = tuple(
    "$ € £ ¥ usd eur euro gbp dollar pound price amount total cost fee balance pay paid charge refund fare credit worth sum".split()
)
_UNITS: Final = (
    r"(?:%|percent\b|[kmgt]i?b\b|bytes?\b|(?:k\ )?tokens?\b|[mun]s(?:ec)?\b|milliseconds?\b|s\b|secs?\b|seconds?\b|mins?\b|minutes?\b"
    r"|h\b|hrs?\b|hours?\b|days?\b|weeks?\b|months?\b|years?\b|px\b|pt\b|[km]?hz\b|fps\b|rpm\b|qps\b|k?g\b|m[gl]\b|[kcm]m\b)"
)
_INTEGER: Final = r"\d(?:[\d,]{0,40})"
_EXTENSIONS: Final = (
    "c|cc|cfg|class|conf|cpp|cs|css|csv|dart|db|doc|docx|env|exe|ex|gif|go|gz|h|hpp|hs|html?|ini|ipynb|jar|java|jpe?g|jsx?|json|jsonl|kt"
    "|less|lock|log|lua|mdx?|mjs|mp[34]|nix|ods|odt|parquet|patch|pdf|php|pl|png|ps1|proto|pyi?|rb|rs|rst|scala|scss|sh|sql|sqlite|svg"
    "|swift|tar|tex|tf|toml|tsx?|tsv|txt|vue|wasm|xlsx?|xml|ya?ml|yml|zig|zip"
)
"""Ends of file names; other names with a dot are methods and hosts."""
# Each repetition is bounded, and none begins within a run that another has tried from its start: a model's answer of one
# long word, or of a thousand commas, costs no more than prose of its length.
_CLAIM: Final = re.compile(
    rf"""(?P<url>[a-z][a-z+]{{1,9}}://[^\s"'`<>()\[\]{{}}|]{{1,2000}})
      | (?P<mail>(?<![\w.+-])[\w.+-]{{1,80}}@[\w-]{{1,80}}(?:\.[\w-]{{1,80}}){{1,8}})
      | (?<![\w.\-@+])(?P<path>(?:(?:~|\.{{1,2}})?/|@(?=[\w.-]{{1,80}}/))?(?:[\w.\-@+]{{1,200}}/){{1,40}}[\w.\-@+]{{0,200}}\w
          | (?:~|\.{{1,2}})?/[\w.\-@+]{{0,200}}\w)
      | (?P<file>\b(?<!\w[.\-])[\w\-]{{1,200}}(?:\.[\w\-]{{1,80}}){{0,8}}\.(?:{_EXTENSIONS})\b(?![(\w]))
      | (?P<version>\bv?\d{{1,9}}\.\d{{1,9}}\.\d{{1,9}}(?:[-+.]?\w{{1,40}}){{0,8}} | \bv\d{{1,9}}(?:\.\d{{1,9}}){{1,8}}
          | \b\d{{1,9}}(?:\.\d{{1,9}}){{1,8}}[-.]?(?:dev|rc|a|b|alpha|beta|post)\d{{0,9}}\b)
      | (?P<date>\b\d{{4}}-\d\d-\d\d\b)
      | (?P<number>[$€£¥]\ ?{_INTEGER}(?:\.\d{{1,40}})?\b | \b{_INTEGER}(?:\.\d{{1,40}})?\ ?-?{_UNITS}(?![\w\-])
          | \b{_INTEGER}\.\d{{1,40}}\b(?!-?[a-z]) | \b\d{{1,3}}(?:,\d{{3}}){{1,12}}\b(?!-?[a-z]) | \b\d{{3,40}}\b(?!-?[a-z]))
      | (?P<id>\#\d{{1,40}}\b | (?<![.\w])\#?\b(?=[\w\-]{{0,240}}\d)(?=[\w\-]{{0,240}}[a-z_])\w[\w\-]{{4,400}})""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_ABOUT: Final = re.compile(
    r"(?:[~≈±]|\b(?:about|around|roughly|approx(?:imately|\.)?|nearly|almost|over|up to)(?: lines?)?)\s*(?:\d+\s*[-\u2013]\s*)?$",
    re.IGNORECASE,
)
"""What stands before an estimate, which claims nothing to the letter."""

_ROUND_CHARS: Final = 80
_STEM_CHARS: Final = 5
"""Enough to tell words apart, and the same in `release` and `released`."""
_WORD: Final = re.compile(r"[a-z]{4,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
_COMMON: Final = frozenset(
    "with from that this were have been will would should could into onto also each then than there these those which when what"
    " where their they them some such only over more most less very after before about around does done made make used using".split()
)
_CUT: Final = ("…", "[...]", "...")
"""What code puts where it cut a text, often within a name."""
_DIGITS: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_KNOWN_TO_ALL: Final = re.compile(
    r"""(?:[a-z]\.)+[a-z]|etc|n/a|v?[x\d](?:\.[xyz])+                                                       # e.g., vX.Y.Z
      | \d{1,2}(?:st|nd|rd|th)|[a-z]+-\d|\d{1,2}-[a-z]+(?:-[a-z]+)*                                          # 2nd, 3-way
      | (?:utf|sha|md|python|py|http|ipv|ec|es|web|oauth|step|part|phase|option|task|test|issue|turn|day|week|case)-?\d{1,4}""",
    re.VERBOSE | re.IGNORECASE,
)
"""Abbreviations, ordinals, ranks and standards, for which a writer needs no source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing that a summary names."""

    kind: ClaimKind
    text: str
    """As it stands in the summary."""
    stop: int
    """Index behind this mention of it."""
    keys: tuple[str, ...]
    """In lower case; the claim holds where one of them stands in a source."""
    near: tuple[str, ...] = ()
    """Of a number with a unit: what must stand beside it, one of these."""
    about: tuple[str, ...] = ()
    """Of a number or version: beginnings of the words beside it in its line."""


def claims_in(text: str) -> list[Claim]:
    """Return the distinct claims of a text, each where it is mentioned first; see `mentions_in`."""
    return first_mentions(mentions_in(text))


def first_mentions(mentions: Iterable[Claim]) -> list[Claim]:
    """Return the first mention of each claim, in order."""
    found: dict[str, Claim] = {}
    for claim in mentions:
        found.setdefault(claim.text, claim)
    return list(found.values())


def mentions_in(text: str) -> list[Claim]:
    """Return what a text claims, each mention of it, in order.

    Paths, addresses, ids, versions, and numbers with a unit or of three digits and more. What follows `about` or `~` is an
    estimate and no claim, and a common word with a digit (`step-2`, `utf-8`) needs no source.
    """
    claims = (_claim_of(match, text) for match in _CLAIM.finditer(text))
    return list(islice((claim for claim in claims if claim is not None), _MOST_CLAIMS))


def _claim_of(match: "re.Match[str]", text: str) -> Claim | None:
    group, said = str(match.lastgroup), match[0].rstrip(".,:;-+")
    stop = match.start() + len(said)
    if len(said) > _MOST_CHARS or _KNOWN_TO_ALL.fullmatch(said):
        return None
    if text[stop : stop + 6].lstrip().startswith(_CUT) or text[: match.start()][-6:].rstrip().endswith(_CUT):
        return None
    if group == "number":
        before = text[max(0, match.start() - _ABOUT_CHARS) : match.start()]
        return None if _ABOUT.search(before) else _number(said, stop, _words_round(text, match.start(), stop))
    if len(said) < _LEAST_CHARS or (group == "path" and not _is_path(said)):
        return None
    key = said.lower().removeprefix("./")
    if group == "version":
        return Claim(
            kind="version",
            text=said,
            stop=stop,
            keys=(key.removeprefix("v"), f"v{key.removeprefix('v')}"),
            about=_words_round(text, match.start(), stop),
        )
    return Claim(kind="path" if group in {"path", "file"} else "id", text=said, stop=stop, keys=(key,))


def _number(said: str, stop: int, about: tuple[str, ...]) -> Claim | None:
    digits = _DIGITS.search(said)
    if digits is None:
        return None
    plain = digits[0].rstrip(",").replace(",", "")
    short = plain.rstrip("0").rstrip(".") if "." in plain else plain
    long = f"{short}0" if "." in short else f"{short}.0"
    keys = tuple(dict.fromkeys((digits[0].rstrip(","), plain, short, long)))
    unit = said[digits.end() :].strip(" -").lower()
    is_money = not said[0].isdigit()
    family = next((f for f in _UNIT_FAMILIES if unit in f or unit.rstrip("s") in f), ()) if unit else ()
    family = _MONEY if is_money else family
    return Claim(kind="number", text=said, stop=stop, keys=keys, near=family, about=about)


def _words_round(text: str, start: int, stop: int) -> tuple[str, ...]:
    """Return the beginnings of the words beside a number, in its line."""
    before = text[max(0, start - _ROUND_CHARS) : start].rpartition("\n")[2]
    behind = text[stop : stop + _ROUND_CHARS].partition("\n")[0]
    words = [*_WORD.findall(before.lower()), *_WORD.findall(behind.lower())]
    return tuple(dict.fromkeys(word[:_STEM_CHARS] for word in words if word not in _COMMON))


def _is_path(said: str) -> bool:
    """Tell a path from alternatives in prose, such as `read/write`."""
    return said[0] in "/~.@" or "." in said.rpartition("/")[2] or "_" in said or (said.count("/") > 1 and "-" in said)
