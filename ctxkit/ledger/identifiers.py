"""Identifiers in a text: paths, addresses, ids, numbers and names that somebody may need again letter by letter.

A text is cut into tokens by one fast expression; a distinct token is looked into once, for most of them repeat.
"""

import re
from functools import lru_cache
from typing import Final

MIN_CHARS: Final = 3
MAX_CHARS: Final = 120
"""Longer tokens are data (base64, minified code), not names; longer addresses are kept up to twice that."""

_TOKEN: Final = re.compile(r"[\w.\-@~+/#:]{3,}")
_JSON_KEY: Final = re.compile(r'"([A-Za-z_]\w*)"\s*:')
_ADDRESS: Final = re.compile(r"[a-z][a-z+]*://.+|(?:localhost|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}", re.ASCII)
_PART: Final = re.compile(
    r"""(?:[\w.\-@~+]*/)+[\w.\-@~+]*\w                          # path
      | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                            # mail address
      | \w+(?:\.\w+)+                                           # dotted name, version, decimal
      | \#?(?=[\w\-]*\d)(?=[\w\-]*[A-Za-z])[\w\-]{3,}           # ticket, hash, uuid, order number
      | \#?\d[\d.:\-]+\d | \d{4,}                               # number, date, time
      | [A-Za-z_]\w*_\w+                                        # snake
      | [a-z]+[A-Z]\w+ | [A-Z][a-z]+[A-Z]\w+                    # camel
      | [\u4e00-\u9fff\u3040-\u30ff]{3,16} | [\uac00-\ud7af]{3,12}""",
    re.VERBOSE | re.ASCII,
)
_STOP: Final = frozenset({"e.g", "i.e", "etc", "utf-8", "python3", "true", "false", "n/a", "and/or", "w.r.t"})
_SHORT_NUMBER: Final = re.compile(r"\d{1,3}|[\d.]{1,4}|\d{1,3}[:\-]\d{1,3}", re.ASCII)
"""Counts, line numbers and ranges: where they come again it is by chance."""

_OPAQUE: Final = re.compile(r"[#\d.:\-]+|#?[A-Z]{0,6}[\-_]?\d[\w\-]*|[0-9a-f]{6,}", re.ASCII)
"""Names that say nothing without the line that they stood in."""
_HAS_UUID: Final = re.compile(r"[0-9a-f]{8}-", re.ASCII)


def identifiers_of(text: str, limit: int) -> list[str]:
    """Return the distinct identifiers of a text in the order of their first mention.

    Args:
        text: Any text; JSON keys are not counted as identifiers, for each record repeats them.
        limit: Most identifiers to return; of more, the first and the last are taken, half each.
    """
    found: dict[str, None] = {}
    for token in dict.fromkeys(_TOKEN.findall(text)):
        parts = _parts_of(token)
        if parts:
            found.update(dict.fromkeys(parts))
    if found and '"' in text:
        for key in _JSON_KEY.findall(text):
            found.pop(key, None)
    names = list(found)
    return names if len(names) <= limit else names[: limit - limit // 2] + names[-(limit // 2) :]


@lru_cache(maxsize=131_072)
def is_opaque(identifier: str) -> bool:
    """Return whether an identifier says nothing by itself: a number, a hash, a ticket."""
    return _OPAQUE.fullmatch(identifier) is not None or _HAS_UUID.search(identifier) is not None


@lru_cache(maxsize=16384)
def _parts_of(token: str) -> tuple[str, ...]:
    token = token.strip(".,:;-")
    if _ADDRESS.match(token):
        return (token,) if len(token) <= 2 * MAX_CHARS else ()
    if not MIN_CHARS <= len(token) <= MAX_CHARS:
        return ()
    parts = (part.strip(".:-") for part in _PART.findall(token))
    return tuple(
        part
        for part in parts
        if len(part) >= MIN_CHARS and part.lower() not in _STOP and not _SHORT_NUMBER.fullmatch(part)
    )
