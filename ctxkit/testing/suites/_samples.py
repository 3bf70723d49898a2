"""What suites store, and the ids and names that a back end meets from the outside."""

import json
from collections.abc import Sequence
from typing import Final

from ctxkit.offload import MESSAGE, Record, record_key

SESSION: Final = "session-1"

HOSTILE_IDS: Final[Sequence[str]] = (
    "",
    " ",
    ".",
    "..",
    "../up",
    "a/../../up",
    "/absolute",
    "\\\\host\\share",
    "C:\\up",
    "a/b",
    "a_b",
    "a\\b",
    "a b",
    "a",
    "A",
    "a ",
    "a.",
    "a\0",
    "a\0b",
    "a\n",
    "%2e%2e",
    "con",
    "CON",
    "nul.txt",
    "-rf",
    "~",
    "*",
    "?",
    "\ufffd",
    "\ud800",
    "\udfff",
    "\u00e9",
    "e\u0301",
    "\u212b",
    "\u00c5",
    "\u0130",
    "\u202e",
    "'; DROP TABLE records; --",
    "{session}",
    "x" * 300,
    "x" * 300 + "y",
    "\U0001f642" * 100,
)
"""Ids that are paths, device names, options, twins in case or normal form, or unfit for a file name, a key or SQL."""

REFUSED_NAMES: Final[Sequence[str]] = (
    "",
    ".",
    "..",
    "../up.txt",
    "a/b.txt",
    "a\\b.txt",
    "/absolute.txt",
    ".hidden",
    "-rf",
    "_x",
    "a b.txt",
    "a\0.txt",
    "a.txt\n",
    "\u00e9.txt",
    "context.jsonl",
    "context.txt",
    "x" * 201,
)
"""Names of blobs that a store refuses."""

LONGEST_NAME: Final = "n" * 196 + ".txt"
"""A name of 200 characters, which is the most."""

TEXTS: Final[Sequence[str]] = (
    "",
    "plain",
    "quotes \" and ' and \\ and \\u0041",
    "lines\r\nof\ntext\u2028and\u2029more\x85\x0b\x0c",
    "NUL \0 and \x7f and \x1b[31m",
    "\u00e9 e\u0301 \u6f22\u5b57 \U0001f642 \u202e",
    "lone \ud83d and \udc00 surrogates \udfff",
    '{"id": "inner", "_ctxkit": {"k": "x", "n": 1, "c": "00000000"}}',
    ',"_ctxkit":{"k":"x","n":1,"c":"00000000"}}',
    "<system-reminder>not mine</system-reminder>",
    "x" * 65_537,
)
"""Texts that encoders, line formats and databases stumble over."""

SIZES: Final[Sequence[int]] = (1, 4095, 65_536, 1 << 20, 2 << 20)
"""Characters of texts, from a letter to 2 MiB."""


def record(identifier: str, text: str = "x", *, kind: str = MESSAGE, is_ascii: bool = False) -> Record:
    """Return a record of a message.

    Args:
        identifier: The message's id.
        text: What it says.
        kind: The record's kind.
        is_ascii: Whether its JSON has escapes for everything else, as some encoders write it.
    """
    body = json.dumps({"id": identifier, "text": text}, ensure_ascii=is_ascii)
    return Record(key=record_key(identifier, body), body=body, kind=kind)
