"""`SecretRedactor`: replaces secrets that have a shape, and counts them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctxkit.errors import ConfigError
from ctxkit.offload.redact.prefilter import Engine, Prefilter, folded
from ctxkit.offload.redact.rules import MARK, RULES, Rule
from ctxkit.offload.redact.tally import count

_GLANCE_CHARS: Final = 256
"""A pattern is tried on so much first; where that is all secret, on `_LONGEST_CHARS`."""
_LONGEST_CHARS: Final = 16_384
LONGEST_SECRET_CHARS: Final = 32_768
"""No secret is longer: a private key of 16,384 bits takes 13,000 characters."""
_FAR_CHARS: Final = 512
"""What matched so far and is no secret is not searched again, so that hostile text costs no square of its length."""

_KEY_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s:,-]|\\{1,3}[nrt])*+")
_KEY_END: Final = "-----END "
_KEY_CLOSE: Final = "-----"
_IN_MARK: Final = re.compile(rf"{re.escape(MARK)}[a-z0-9-]*\Z")
_MARK_CHARS: Final = len(MARK) + 40
"""Characters of the longest mark before its closing bracket; see `Rule.kind`."""
_ESCAPE: Final = re.compile(r"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2})\Z")


class Span(NamedTuple):
    """One secret in a text."""

    start: int
    """Its first character, 0-based."""
    stop: int
    """The first character behind it."""
    kind: str


@dataclass(frozen=True, kw_only=True)
class _Search:
    """A rule made ready."""

    rank: int
    rule: Rule
    pattern: re.Pattern[str]


class SecretRedactor:
    """Replaces each secret that a rule finds by `[REDACTED:<kind>]`.

    Nothing of the secret stays, no hash either: who has a guess could test it by one, and one keyed anew in each process
    would give the same text another form after a restart, so that what is stored already would be stored again. The same
    text always gives the same, and what was redacted once is not changed by a second time.

    It finds what has a shape; a password in plain prose has none. Safe to share by agents and tasks.

    Args:
        rules: What to look for, the more telling first; `(*RULES, Rule(...))` adds an own one.
        engine: What looks for the rules' literals; with google-re2 it is some ten times faster and finds the same.

    Raises:
        ConfigError: A rule's pattern cannot be used, or google-re2 is wanted and not installed.
    """

    def __init__(self, rules: Sequence[Rule] = RULES, *, engine: Engine = "auto") -> None:
        searches = [_Search(rank=rank, rule=rule, pattern=_compiled(rule)) for rank, rule in enumerate(rules)]
        self._exact = [
            (text, search) for search in searches if not search.rule.any_case for text in search.rule.literals
        ]
        self._folded = [(text, search) for search in searches if search.rule.any_case for text in search.rule.literals]
        self._prefilter = Prefilter(
            [text for text, _ in self._exact], [text for text, _ in self._folded], engine=engine
        )
        self._reach = max((len(text) for text, _ in (*self._exact, *self._folded)), default=1) - 1
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets of each kind were replaced so far."""
        return dict(self._counts)

    def __call__(self, text: str) -> str:
        """Return a text without the secrets that the rules find."""
        return self.replaced(text, 0, len(text), self.spans(text))

    def replaced(self, text: str, start: int, stop: int, spans: Sequence[Span]) -> str:
        """Return a part of a text with the secrets in it replaced, and count them.

        Args:
            text: The text.
            start: First character of the part, 0-based.
            stop: First character behind it.
            spans: What `spans` found there; the last may reach beyond the part.
        """
        if not spans:
            return text[start:stop]
        parts: list[str] = []
        for span in spans:
            parts += (text[start : span.start], f"{MARK}{span.kind}]")
            start = span.stop
        self._counts.update(span.kind for span in spans)
        count(span.kind for span in spans)
        return "".join(parts) + text[start:stop]

    def may_hold(self, text: str, start: int, stop: int) -> bool:
        """Whether a secret may begin in a part of a text; this looks for the rules' literals only."""
        part = text[start : stop + self._reach]
        exact, any_case = self._prefilter.candidates(part)
        if any(self._exact[n][0] in part for n in exact):
            return True
        low = folded(part) if any_case else ""
        return any(self._folded[n][0] in low for n in any_case)

    def spans(self, text: str, start: int = 0, stop: int | None = None) -> list[Span]:
        """Return the secrets that begin in a part of a text, in order and apart from each other.

        Args:
            text: The whole text; a secret may go on behind the part.
            start: First character of the part, 0-based.
            stop: First character behind it; `None` for the end.
        """
        stop = len(text) if stop is None else min(stop, len(text))
        part = text[start : stop + self._reach]
        exact, any_case = self._prefilter.candidates(part)
        found = list(self._found(text, part, start, stop, [self._exact[n] for n in exact]))
        if any_case:
            found += self._found(text, folded(part), start, stop, [self._folded[n] for n in any_case])
        found.sort()
        merged: list[tuple[int, int, int, str]] = []
        for first, last, rank, kind in found:
            if merged and first < merged[-1][1]:
                before = merged[-1]
                best = min((before[2], before[3]), (rank, kind))
                merged[-1] = (before[0], max(before[1], last), *best)
            else:
                merged.append((first, last, rank, kind))
        return [Span(first, last, kind) for first, last, _, kind in merged]

    def _found(
        self, text: str, part: str, start: int, stop: int, literals: Sequence[tuple[str, _Search]]
    ) -> Iterator[tuple[int, int, int, str]]:
        """Yield start, stop, rank and kind of what begins in a part, which may be in lower case."""
        ends = _KeyEnds(text)
        for literal, search in literals:
            last = min(stop - start + len(literal) - 1, len(part))
            at = part.find(literal, 0, last)
            while at >= 0:
                begin, is_secret, end = _match(search, text, start + at, ends)
                if is_secret:
                    yield begin, end, search.rank, search.rule.kind
                is_far = is_secret or end - start - at > _FAR_CHARS
                at = part.find(literal, max(end - start, at + 1) if is_far else at + 1, last)


class _KeyEnds:
    """Finds where private keys end, looking at each character once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = -1
        self._known_to = 0

    def after(self, at: int) -> int:
        """Return where the key ends whose first line ends at `at`."""
        stop = min(at + LONGEST_SECRET_CHARS, len(self._text))
        if self._next < at:
            self._next = self._text.find(_KEY_END, max(at, self._known_to), stop)
            self._known_to = max(at, stop - len(_KEY_END)) if self._next < 0 else self._next
        if at <= self._next < stop:
            close = self._text.find(_KEY_CLOSE, self._next + len(_KEY_END), self._next + len(_KEY_END) + 60)
            if close >= 0:
                return close + len(_KEY_CLOSE)
        body = _KEY_BODY.match(self._text, at, stop)
        return at if body is None else body.end()


def _match(search: _Search, text: str, at: int, ends: _KeyEnds) -> tuple[int, bool, int]:
    """Try a rule at a place: (where the secret begins, whether it is one, where it or the try ended)."""
    rule = search.rule
    if rule.is_alone and at and not _is_apart(text, at):
        return at, False, at
    size = _GLANCE_CHARS
    while True:
        window = text[at : at + size]
        match = search.pattern.match(folded(window) if rule.any_case else window)
        if match is None or match.end() < len(window) or size == _LONGEST_CHARS:
            break
        size = _LONGEST_CHARS
    if match is None:
        return at, False, at
    group = next((number for number, part in enumerate(match.groups(), 1) if part is not None), 0)
    begin, end = at + match.start(group), at + match.end(group)
    if rule.literals == _KEY_LITERALS:
        return begin, True, ends.after(end)
    is_secret = (rule.check is None or rule.check(text[begin:end])) and not _is_in_mark(text, at)
    return begin, is_secret, end


_KEY_LITERALS: Final = ("-----BEGIN ",)


def _is_in_mark(text: str, at: int) -> bool:
    """Whether a place is within what took the place of a secret, whose kind may be a literal itself, such as `token`."""
    return _IN_MARK.search(text, max(0, at - _MARK_CHARS), at) is not None


def _is_apart(text: str, at: int) -> bool:
    """Whether no word goes on at a place: nothing but the end of a JSON or URL escape stands before it."""
    before = text[at - 1]
    if not (before.isascii() and (before.isalnum() or before == "_")):
        return True
    return _ESCAPE.search(text, max(0, at - 6), at) is not None


def _compiled(rule: Rule) -> re.Pattern[str]:
    try:
        return re.compile(rule.pattern)
    except re.error as exc:
        msg = f"The pattern {rule.pattern!r} of rule {rule.kind!r} cannot be used ({exc}): mend it."
        raise ConfigError(msg) from exc
