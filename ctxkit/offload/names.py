"""File names for ids: any id becomes one harmless path component, and no two ids share one."""

import re
import unicodedata
from hashlib import blake2b
from typing import Final

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
"""Ids that are their own file name. Upper case is not among them: some file systems fold it."""

_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10))}
)
"""Device names of Windows, which no file there may have."""

RESULT_PREFIX: Final = "tool_result-"
"""How the name of a stored tool result begins, as in AgentScope."""

_STUB_CHARS: Final = 32
"""Characters of an unsafe id that stay readable in its name."""


def fsname(identifier: str) -> str:
    """Return the file name that stands for an id.

    Ids of lower-case letters, digits, `_` and `-` (AgentScope's own are) stay as they are. All others become a
    readable stub, `~` and 128 bits of their hash: `~` never stands in a safe id, so no two ids share a name, also
    where a file system folds case or normal forms.

    Args:
        identifier: Any text: empty, a path, with NUL or lone surrogates, of any length.

    Returns:
        At most 100 ASCII characters of `[a-z0-9_~-]`, never starting with `-` or `_`.
    """
    if _SAFE.fullmatch(identifier) and identifier not in _RESERVED:
        return identifier
    plain = unicodedata.normalize("NFKD", identifier[:64]).encode("ascii", "ignore").decode("ascii").lower()
    stub = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_STUB_CHARS]
    digest = blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{stub or 'id'}~{digest}"


def result_name(call_id: str) -> str:
    """Return the name of the blob that holds the result of a call."""
    return f"{RESULT_PREFIX}{fsname(call_id)}.txt"
