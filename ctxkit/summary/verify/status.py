"""No stale status: where a summary says done and the record shows failed, or the other way round, the record is quoted."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ctxkit.ledger import Command, Failure, Ledger, clipped
from ctxkit.summary.verify.claims import RECORD
from ctxkit.summary.verify.sentences import sentences_of

_MOST: Final = 8
_SHOWN_CHARS: Final = 160
_NAME_CHARS: Final = 7
"""Shorter command lines (`ls`, `make`) stand in sentences by chance."""

_KINDS: Final[Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]]] = {
    "tests": (
        re.compile(r"\b(?:unit |integration |regression |e2e )?test(?:s|\ suite|\ cases)?\b", re.IGNORECASE),
        re.compile(
            r"\b(?:py\.?test|vitest|jest|mocha|tox|nox|unittest|rspec|phpunit|ctest|runtests)\b"
            r"|\b(?:npm|yarn|pnpm|bun|cargo|go|mvn|gradlew?|make|dotnet|mix|zig|swift)\b[^|;&]*\btest\b",
            re.IGNORECASE,
        ),
    ),
    "build": (
        re.compile(r"\b(?:build|compil(?:es|ed|ation|ing))\b", re.IGNORECASE),
        re.compile(
            r"\b(?:build|compile|tsc|tsgo|gcc|g\+\+|clang|javac|cmake|cargo check)\b|^\s*make\s*$", re.IGNORECASE
        ),
    ),
    "checks": (
        re.compile(r"\b(?:lint(?:er|ing|s)?|type[- ]?checks?|checks?)\b", re.IGNORECASE),
        re.compile(r"\b(?:mypy|pyright|ruff|flake8|eslint|biome|clippy|lint|check)\b", re.IGNORECASE),
    ),
}
"""Words for a kind of command, and the commands that are of the kind."""

_MADE: Final = r"(?:created?|added?|adds|wrote|written|exists?)"
_GONE: Final = r"(?:delet(?:ed?|es)|removed?|removes)"
_DONE: Final = re.compile(
    r"\b(?:pass(?:es|ed|ing)?|green|succe(?:ed(?:s|ed)?|ss(?:ful(?:ly)?)?)|works?(?: now| fine| again)?|working|fixed|resolved|repaired|solved|clean(?:ly)?"
    r"|done|complete[ds]?|finished|no (?:errors?|failures?|problems?)|without (?:errors?|failures?)|0 (?:errors|failed|failures)|all good|is ok(?:ay)?)\b",
    re.IGNORECASE,
)
_FAILS: Final = re.compile(
    r"\b(?:still|currently|now) (?:fail|broken|red|break)|\b(?:is|are) (?:still |currently |now )?(?:failing|broken|red)\b"
    r"|\b(?:fails|does not pass|do not pass|not passing|don't pass|doesn't pass)\b",
    re.IGNORECASE,
)
_HEDGED: Final = re.compile(
    r"\b(?:not|never|no longer|fail\w*|until|unless|once|if|when|before|previously|initially|at first|earlier|first|should|must|will|would|could|may"
    r"|todo|needs?|want\w*|make sure|ensure|verify|check (?:that|whether|if)|confirm|so that|expect\w*|try|to be|pending|remain\w*|next|then)\b|n't\b|\?\s*$",
    re.IGNORECASE,
)
_PAST: Final = re.compile(
    r"\b(?:no longer|previously|initially|at first|earlier|before|fixed|was|were|had|if|when|not yet)\b", re.IGNORECASE
)
_QUOTED: Final = re.compile(r"`([^`\n]{3,200})`")
_WORD: Final = re.compile(r"[\w./\-]{4,}")
_ERROR_NAME: Final = re.compile(r"\b\w*(?:Error|Exception)\b")


def with_status(text: str, ledger: Ledger, *, about: str) -> tuple[str, list[str]]:
    """Return a text with what the record shows behind each sentence that contradicts it, and these additions.

    Args:
        text: One field of a summary.
        ledger: The record.
        about: The whole summary; what any of it says of a file's end is not held against the rest.
    """
    shown: list[str] = []
    parts: list[str] = []
    done = 0
    newest = {_plain(command.text): command for command in ledger.commands if command.outcome}
    for start, stop in sentences_of(text):
        sentence = text[start:stop]
        record = _of_commands(sentence, newest, ledger) or _of_files(sentence, ledger, about)
        if record is None or len(shown) == _MOST or text.startswith(f" {RECORD}", stop) or RECORD in sentence:
            continue
        shown.append(record)
        parts.append(f"{text[done:stop]} {RECORD}{record}]")
        done = stop
    return "".join([*parts, text[done:]]), shown


def failure_of(command: Command, ledger: Ledger) -> Failure | None:
    """Return the error of a command line that the ledger holds for open, the newest one; `None` where there is none."""
    line = _plain(command.text)
    return next((failure for failure in reversed(ledger.open_failures) if _is_of(failure, line)), None)


def _is_of(failure: Failure, line: str) -> bool:
    """Whether an error is one of a command line; the ledger clips the lines of both, and names the tool before one."""
    said = failure.what.partition(" ")[2]
    return bool(said) and (said == line or (said.endswith("…") and line.startswith(said[:-1])))


def _plain(command: str) -> str:
    return " ".join(command.split())


def _shown(done: str, outcome: str) -> str:
    return f"{clipped(done, _SHOWN_CHARS // 2)} -> {clipped(outcome, _SHOWN_CHARS // 2)}"


def _of_commands(sentence: str, newest: Mapping[str, Command], ledger: Ledger) -> str | None:
    """Return what the record shows of the command that a sentence speaks of, where the sentence says otherwise."""
    prose = _QUOTED.sub("it", sentence)
    says_done = _DONE.search(prose) is not None and not _HEDGED.search(prose)
    says_failed = _FAILS.search(prose) is not None and not _PAST.search(prose)
    if not (says_done or says_failed):
        return None
    for command in _meant(sentence, newest):
        if (says_done and failure_of(command, ledger)) or (says_failed and command.outcome == "ok"):
            return _shown(command.text, command.outcome)
    if says_done:
        for failure in reversed(ledger.open_failures):
            if _shares_error(sentence, failure.said):
                return _shown(failure.what, failure.said)
    return None


def _meant(sentence: str, newest: Mapping[str, Command]) -> Iterator[Command]:
    """Yield the newest run of what a sentence names: a quoted command, else a kind of commands."""
    commands = list(newest.values())[::-1]
    quoted = [_plain(part) for part in _QUOTED.findall(sentence)]
    named = [next((c for c in commands if part in _plain(c.text)), None) for part in quoted]
    named += [c for c in commands if len(c.text) >= _NAME_CHARS and _plain(c.text) in sentence][:1]
    found = [command for command in named if command is not None]
    if found:
        yield from found
        return
    for words, programs in _KINDS.values():
        if words.search(sentence):
            newest_of_kind = next((c for c in commands if programs.search(c.text)), None)
            if newest_of_kind is not None:
                yield newest_of_kind
            return


def _shares_error(sentence: str, outcome: str) -> bool:
    """Return whether a sentence speaks of the error that an outcome shows: by its name and one more word, or by three."""
    names = set(_ERROR_NAME.findall(outcome))
    words = {word.strip(".").lower() for word in _WORD.findall(outcome)} - {name.lower() for name in names}
    said = {word.strip(".").lower() for word in _WORD.findall(sentence)}
    is_named = any(name in sentence for name in names)
    return len(words & said) >= (1 if is_named else 3)


def _of_files(sentence: str, ledger: Ledger, about: str) -> str | None:
    """Return what the record shows of a file that a sentence says was created or deleted, where it was the other way."""
    if not re.search(r"creat|add|wrote|written|exist|delet|remov", sentence, re.IGNORECASE):
        return None
    for path, state in ledger.files.items():
        name = path.rpartition("/")[2]
        if len(name) < 3 or name not in sentence:  # noqa: PLR2004 - no file is known by two letters
            continue
        if state == "deleted" and _says(sentence, name, _MADE) and not _says(about, name, _GONE):
            return clipped(f"{path} deleted", _SHOWN_CHARS)
        if state in {"created", "modified"} and _says(sentence, name, _GONE) and not _says(about, name, _MADE):
            return clipped(f"{path} {state}", _SHOWN_CHARS)
    return None


def _says(text: str, name: str, verb: str) -> bool:
    """Return whether a text says of a file that something was done to the whole of it."""
    file = rf"[`'\"*]*(?:[\w.~/\-@]*/)?{re.escape(name)}[`'\"*]*"
    before = rf"\b{verb}\b:?(?:\s+(?:the|a|new|file|files|old|empty|obsolete|temporary))*\s+{file}(?![\w/])"
    behind = rf"(?<!\bin )(?<!\bfrom )(?<!\bof )(?<!\bto )(?<![\w/.~@\-`'\"*]){file}\s+(?:\(?(?:was|were|is|has been|have been|been|now|file)\s+)*{verb}\b"
    return re.search(f"{before}|{behind}", text, re.IGNORECASE) is not None
