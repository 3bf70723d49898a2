"""Says the same in fewer characters: escape codes, states of a progress bar, blank lines and trailing blanks go."""

import re
from typing import Final

from ctxkit.ledger.markers import without_escapes
from ctxkit.results.kinds import is_diff
from ctxkit.results.marker import defuse

_REDRAWS: Final = re.compile(r"\x1b\[(?:2K|[01]?G)")
"""Erases the line, or goes to its start: what follows is drawn over what stood there (ECMA-48, EL and CHA)."""
_PROGRESS: Final = re.compile(
    r"\d\s?%|\d\s?/\s?\d|[#=█▓▒░━─■●•.>-]{3}|[\u2800-\u28ff]|^\s*[|/\\-](?:\s|$)|\b[kKMG]i?B/s\b|\beta\b", re.IGNORECASE
)
"""What a state of a progress bar has in it: a share, a bar, a spinner, a speed."""
_VARIES: Final = re.compile(r"[\W\d_]+")
_TRAILING: Final = re.compile(r"[ \t\r\f\v]+$", re.MULTILINE)
_BLANK_RUN: Final = re.compile(r"\n{3,}")
_SIGNS: Final = ("\x1b", "\x9b", "\r", "\n\n\n", " \n", "\t\n")


def shrink(text: str, *, tool_name: str = "", verbatim: bool = False) -> str:
    """Return a text that says the same in fewer characters, or the text itself where there is nothing to gain.

    Escape codes go; of the states of a line that a program drew over and over, the last of each kind stays; of a run of
    blank lines one stays; trailing blanks go. A second pass changes nothing. The time is linear in the text.

    Args:
        text: A tool's output.
        tool_name: The tool that gave it.
        verbatim: An editor will match the text; then it stays as it is. Diffs do in any case.
    """
    if verbatim or not (any(sign in text for sign in _SIGNS) or text.endswith((" ", "\t"))):
        return text
    plain = without_escapes(_REDRAWS.sub("\r", text))
    if is_diff(plain, tool_name=tool_name):
        return text
    if "\r" in plain:
        plain = "\n".join(_last_states(line) if "\r" in line else line for line in plain.split("\n"))
    plain = _BLANK_RUN.sub("\n\n", _TRAILING.sub("", plain))
    # Without what stood between them, two halves of a forged marker may have met.
    plain = defuse(plain)
    return plain if len(plain) < len(text) else text


def _last_states(line: str) -> str:
    """Return a line without the states of a progress bar that a later state of the same bar was drawn over."""
    states = [state.rstrip(" \t\f\v") for state in line.split("\r") if state.strip()]
    kept: list[str] = []
    for state in states:
        while kept and _is_drawn_over(kept[-1], state):
            kept.pop()
        kept.append(state)
    return "\r".join(kept)


def _is_drawn_over(before: str, after: str) -> bool:
    """Whether both are states of the same progress bar: alike but for numbers and signs, or ended with a word more."""
    if before == after:
        return True
    if not _PROGRESS.search(before):
        return False
    return " ".join(_VARIES.split(after)).strip().startswith(" ".join(_VARIES.split(before)).strip())
