"""Lines and sentences that matter: where an identifier stood, errors, and what a user demands or forbids."""

# ruff: noqa: RUF001 - the punctuation of Chinese and Japanese texts is what is looked for

import re
from collections.abc import Sequence
from typing import Final

LINE_CHARS: Final = 160
"""Longer lines are clipped round the place that matters."""

_SENTENCE_CHARS: Final = 400
_ERROR_HINTS: Final = ("rror", "RROR", "xception", "FAIL", "atal", "ATAL", "panic", "错误", "失败", "异常")
_ERROR_LINE: Final = re.compile(
    r"""\s*(?:[\w.]{0,80}(?:Error|Exception|Warning|Exit)\b[^=]{0,2}:   # a Python-like exception
      | (?:[\w./\-]{1,120}:\d+(?::\d+)?:?\s+)?(?:fatal\s+)?error\b\W{0,12}\S        # a compiler
      | \[?(?:ERROR|FATAL|CRITICAL|E\s{2,})\b
      | (?:FAILED|FAIL:|panic:|fatal:|Caused\ by:)
      | .{0,40}(?:错误|失败|异常)[：:]
      | \{?"?error"?\s*[:=])""",
    re.VERBOSE,
)
_EXIT_CODE: Final = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:code|status))?|return ?code)[\"'>:= ]{1,4}\(?(-?\d{1,6})", re.IGNORECASE
)
_SAYS_ERROR: Final = re.compile(r"\s*(?:error|ERROR|Error)\s*:")
_RETURN_CODE: Final = re.compile(r"\s*<(?:returncode|exit_?code)>\s*(-?\d{1,6})", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[^\n.!?;。！？；]+(?:[.!?;](?!\s)[^\n.!?;。！？；]*)*[.!?;。！？；]?")
_DEMAND: Final = re.compile(
    r"""\b(?:must|never|always|only|don['\u2019]?t|do\ not|does\ not|cannot|can['\u2019]t|mustn['\u2019]t|shouldn['\u2019]t|should\ not|should
        |shall|make\ sure|ensure|be\ sure|avoid|without|require[sd]?|forbidden|not\ allowed|remember|keep|prefer|at\ (?:most|least)
        |no\ more\ than|before|under\ no)\b
      | ^\s*(?:[-*]\s*)?(?:use|no|please\ use|important|note)\b
      | 必须|不要|禁止|不得|不能|不可|务必|只能|只要|一定要|请勿|切勿|始终|总是|确保|避免|别(?=[\u4e00-\u9fff])|应该|需要
      | ない(?:で|こと)|必ず|してください|하지\ ?마|반드시|말아""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_STRICT: Final = re.compile(
    r"""\b(?:must|never|always|only|don['\u2019]?t|do\ not|cannot|can['\u2019]t|mustn['\u2019]t|shall|forbidden|not\ allowed|under\ no)\b
      | 必须|不要|禁止|不得|不能|不可|务必|只能|一定要|请勿|切勿|始终|总是|ない(?:で|こと)|必ず|하지\ ?마|반드시|말아""",
    re.VERBOSE | re.IGNORECASE,
)
"""Of what demands something, what leaves no choice."""
_PROMISE: Final = re.compile(
    r"""\b(?:I(?:['\u2019]ll|\ will|['\u2019]ve\ decided|\ have\ decided|\ decided|\ chose|\ promise)|we(?:['\u2019]ll|\ will|\ decided)
        |let['\u2019]s\ (?:use|keep|go\ with|stick|switch|do|not)|decided\ (?:to|on|against|that)|decision:|instead\ of
        |agreed|going\ (?:to\ use|with))\b
      | 我(?:会|将|决定|们将)|决定|采用|改用""",
    re.VERBOSE | re.IGNORECASE,
)
_PROMISE_CHARS: Final = 240
_PROMISE_LOOK: Final = 8_000
"""So much of the end of a text is looked through."""
_HOST_FAILURE: Final = re.compile(r"Command failed: .*|Std(?:out|err):|\W*", re.ASCII)
"""Lines that the host's shell tool puts before what a command said."""


def clipped(text: str, limit_chars: int = LINE_CHARS) -> str:
    """Return a text on one line, its end cut off where it is longer than the limit."""
    line = " ".join(text[: limit_chars * 8].split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1].rstrip() + "…"


def line_at(text: str, part: str) -> str:
    """Return the line in which `part` first stands, clipped round it."""
    at = text.find(part)
    if at < 0:
        return clipped(part)
    start = text.rfind("\n", 0, at) + 1
    stop = text.find("\n", at)
    stop = len(text) if stop < 0 else stop
    if stop - start > LINE_CHARS:
        start = _word_start(text, max(start, at - LINE_CHARS // 2), at)
        stop = max(min(stop, start + LINE_CHARS), at + len(part))
    return " ".join(text[start:stop].split())


def _word_start(text: str, start: int, at: int) -> int:
    """Move a start on to where a word begins, at most up to `at`."""
    blanks = [place + 1 for blank in " ,;{[" if (place := text.find(blank, start, at)) >= 0]
    return min(blanks, default=start)


def errors_in(text: str, limit: int) -> tuple[str, ...]:
    """Return the last distinct error lines of a text, in their order, clipped."""
    if not any(hint in text for hint in _ERROR_HINTS):
        return ()
    found: dict[str, None] = {}
    for line in reversed(text.splitlines()):
        if _ERROR_LINE.match(line[: 2 * LINE_CHARS]):
            found.setdefault(clipped(line))
            if len(found) == limit:
                break
    return tuple(reversed(found))


def exit_code_in(text: str) -> int | None:
    """Return the exit code that the start or the end of a tool's output names."""
    wrapped = _RETURN_CODE.match(text)
    if wrapped:  # what stands further down may be a line of a script that was printed
        return int(wrapped[1])
    for end in (text[-400:], text[:200]):
        match = _EXIT_CODE.search(end)
        if match:
            return int(match[1])
    return None


def says_error(text: str) -> bool:
    """Whether a result begins by saying that it is an error, as tools do that have no other way to say so."""
    return _SAYS_ERROR.match(text) is not None


def constraints_in(text: str) -> tuple[str, ...]:
    """Return the sentences of a user that demand or forbid something, verbatim up to 400 characters, in their order."""
    if not _DEMAND.search(text):
        return ()
    sentences = (sentence for sentence in _SENTENCE.findall(text) if _DEMAND.search(sentence[:_SENTENCE_CHARS]))
    return tuple(dict.fromkeys(clipped(sentence, _SENTENCE_CHARS) for sentence in sentences))


def is_strict(constraint: str) -> bool:
    """Whether a demand leaves no choice."""
    return _STRICT.search(constraint) is not None


def strictest(constraints: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return at most so many constraints, in their order: those that leave no choice go first, then the first ones."""
    if len(constraints) <= limit:
        return tuple(constraints)
    ranked = sorted(range(len(constraints)), key=lambda at: (not is_strict(constraints[at]), at))
    return tuple(constraints[at] for at in sorted(ranked[:limit]))


def promises_in(text: str, limit: int) -> tuple[str, ...]:
    """Return the last sentences of an assistant that decide or promise something, verbatim up to 240 characters."""
    found: dict[str, None] = {}
    if not _PROMISE.search(text[-_PROMISE_LOOK:]):
        return ()
    for sentence in _SENTENCE.findall(text[-_PROMISE_LOOK:]):
        if _PROMISE.search(sentence[:_PROMISE_CHARS]):
            found.setdefault(clipped(sentence, _PROMISE_CHARS))
    return tuple(found)[-limit:]


def last_words(text: str) -> str:
    """Return the last line of a text that says anything, clipped; lines that the host's tools add do not count."""
    for line in reversed(text[-20 * LINE_CHARS :].splitlines()):
        if not _HOST_FAILURE.fullmatch(line.strip()):
            return clipped(line)
    return clipped(text)
