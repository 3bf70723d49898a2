"""Tells which of many short literals stand in a text, so that text without any of them costs little."""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Literal

from ctxkit.errors import ConfigError

Engine = Literal["auto", "re", "re2"]
"""Whether google-re2 looks for all literals at once (`pip install agentscope-ctxkit[redact]`): where it is installed, never, or always."""


def _installed() -> Any:
    try:
        return import_module("re2")
    except ImportError:
        return None


_RE2: Final = _installed()
"""Imported with this module: later it might hold an event loop."""


class Prefilter:
    """Finds literals in a text; both engines find the same.

    Args:
        exact: Literals that are looked for as they stand.
        folded: Lower-case literals that are looked for in any case.
        engine: What looks for them.

    Raises:
        ConfigError: google-re2 is wanted and not installed.
    """

    def __init__(self, exact: Sequence[str], folded: Sequence[str], *, engine: Engine = "auto") -> None:
        self._exact = tuple(exact)
        self._folded = tuple(folded)
        self._set: Any = None
        if engine == "re2" and _RE2 is None:
            msg = "SecretRedactor.engine is 're2', which is not installed: pip install agentscope-ctxkit[redact]."
            raise ConfigError(msg)
        if engine != "re" and _RE2 is not None:
            self._set = _RE2.Set.SearchSet()
            for literal in self._exact:
                self._set.Add(re.escape(literal))
            for literal in self._folded:
                self._set.Add(f"(?i){re.escape(literal)}")
            self._set.Compile()

    def candidates(self, text: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return the indexes of the exact and of the folded literals that may stand in a text, all that do among them."""
        every = range(len(self._exact)), range(len(self._folded))
        if self._set is None:
            return every
        try:
            found = sorted(self._set.Match(text) or ())
        except UnicodeEncodeError:  # a lone surrogate, which google-re2 cannot take
            return every
        size = len(self._exact)
        return [n for n in found if n < size], [n - size for n in found if n >= size]


def folded(text: str) -> str:
    """Return a text in lower case that has as many characters: the one letter that would become two (U+0130) does not."""
    return text.lower() if text.isascii() else text.replace("\u0130", "?").lower()
