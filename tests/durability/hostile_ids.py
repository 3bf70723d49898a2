"""Ids as nobody should choose them, and a directory with neighbours that must not notice."""

import os
import string
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

NUMBER = 4853
"""So many different ids; the number is the one of the first survey."""

CHOSEN = (
    "", ".", "..", "...", "/", "//", "../x", "../../etc/passwd", "../../outside", "../outside/victim", "/etc/passwd", "a/b",
    "a\\b", "..\\..\\x", "C:\\x", "C:", "\\\\srv\\share", "a:b", "a\x00b", "\x00", "\n", "a\nb", "\r", "\t", " ", " a", "a ",
    "a.", "a..", "-rf", "--help", "~", "~root", "$HOME", "$(id)", "`id`", ";rm -rf /", "|x", "&", "*", "?", '"', "'", "<",
    ">", "CON", "con", "Con.txt", "NUL", "nul", "nul.tar.gz", "COM1", "com1", "COM¹", "LPT9.x", "lpt9", "aux", "PRN",
    "CONIN$", "x" * 99, "x" * 100, "x" * 101, "x" * 255, "x" * 256, "x" * 4096, "é" * 128, "😀" * 64, "é", "e\u0301", "K",
    "\u212a", "k", "ı", "İ", "ß", "SS", "ss", "ﬁ", "fi", "\uff45", "\ud800", "\udcff", "\udfff\ud800", "\u202e", "\u202etxt.exe",
    "\u200b", "\ufeff", "a\u200bb", "A", "a", "aA", "Aa", ".git", ".ssh", ".lock", ".epoch", ".lease", ".trash", ".fences",
    ".tmp-0", "context", "context.jsonl", "context.jsonl.lock", "context-0002.jsonl", "context.record-00.json", "sessions",
    "sessions.json", "sessions.json.bak.1", "data", "agents", "tool_result-x", "tool_result-x.txt", "s.state.json", "%2e%2e%2f",
    "%00", "..%2f", "....//", "..;/", "file:///etc", "http://x", "workspace:///data/x", "\x1b[31m", "id~" + "0" * 32,
    "\u2024\u2024/", "\uff0e\uff0e\uff0f", "__proto__", "null", "None", "undefined", "0", "-1", "1e999", "'; DROP TABLE sessions;--",
    "{{7*7}}", "{0}", "%s%n", "<script>", "\u2028", "\U000e0041", "👩‍👩‍👧", "مرحبا", "०१२", "１２", "ⓐ",
)  # fmt: skip
LONGEST = 1_000_000


@cache
def hostile_ids() -> Sequence[str]:
    """Return all ids, each once, the long ones last."""
    chance = Random(1)
    letters = "./\\~ :\x00\nAaBbéK\u212a\u0301%$*?\ud800\u202e😀" + string.ascii_letters
    found = dict.fromkeys(CHOSEN)
    for known in CHOSEN:
        found |= dict.fromkeys(
            (known.upper(), known.lower(), f"../{known}", f"{known}/", f"{known}\x00", f"{known}/../..")
        )
    long = [letter * LONGEST for letter in ("x", "X", "/", "../"[:2], "\x00", "é", "\ud800")]
    while len(found) < NUMBER - len(long):
        found["".join(chance.choice(letters) for _ in range(chance.randint(0, 60)))] = None
    return [*list(found)[: NUMBER - len(long)], *long]


class Surroundings:
    """A place for a store, in the midst of files that are none of its business.

    Args:
        base: An empty directory.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "deep" / "within" / "root"
        for name in ("outside", "deep/outside", "deep/within/outside", "deep/within/victim", "deep/within/rootling"):
            (base / name).mkdir(parents=True)
            (base / name / "keep").write_text("untouched")
        (base / "deep/within/x").write_text("untouched")
        self._before = self._all()

    def assert_untouched(self) -> None:
        """Ask that nothing was made, changed or removed beside the root."""
        assert self._all() == self._before

    def _all(self) -> Mapping[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for folder, folders, names in os.walk(self.base):
            folders[:] = [name for name in folders if Path(folder, name) != self.root]
            found[folder] = None
            for name in names:
                path = Path(folder, name)
                found[str(path)] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        return found
