"""Tests in the output of test runners: their names and how each of them went last."""

# ruff: noqa: RUF001 - the signs are those that runners print

import re
from collections.abc import Iterator
from html import unescape
from typing import Final, Literal

TestState = Literal["passed", "failed", "skipped"]

_NAME_CHARS: Final = 160
_LINE_CHARS: Final = 640
"""Longer lines are data."""
_CASE_CHARS: Final = 2000
"""So much of a case in JUnit's XML says how it went; what it printed stands behind that."""
_STATES: Final[dict[str, TestState]] = {
    "passed": "passed", "pass": "passed", "ok": "passed", "✓": "passed", "✔": "passed", "√": "passed",
    "failed": "failed", "fail": "failed", "error": "failed", "✕": "failed", "✗": "failed", "×": "failed", "not ok": "failed",
    "xpass": "passed", "expected failure": "skipped", "unexpected success": "failed",
    "skipped": "skipped", "skip": "skipped", "ignored": "skipped", "xfail": "skipped", "○": "skipped",
}  # fmt: skip
_HINTS: Final = (
    "PASS",
    "FAIL",
    "SKIP",
    "ERROR",
    "... ",
    "✓",
    "✔",
    "√",
    "✕",
    "✗",
    "×",
    "○",
    "ok ",
    "Tests run:",
    "passing",
)
"""One of these stands in each line that tells of a test."""
_LINES: Final = (
    # pytest: one a line with -v, with xdist, and in the short summary
    re.compile(r"(?P<name>[\w./\-]+::\S.*?) (?P<state>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"),
    re.compile(
        r"(?:\[gw\d+\] \[ ?\d+%\] )?(?P<state>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?P<name>[\w./\-]+::\S.*?)(?: - .*)?$"
    ),
    re.compile(r"(?P<state>ERROR) (?P<name>[\w./\-]+\.py)(?: - .*)?$"),
    # gradle
    re.compile(r"(?P<name>[\w.$]+ > \S.*) (?P<state>PASSED|FAILED|SKIPPED)$"),
    # go: tests, and packages
    re.compile(r"--- (?P<state>PASS|FAIL|SKIP): (?P<name>\S+)"),
    re.compile(
        r"(?P<state>ok|FAIL) (?P<name>[\w.\-/]*[A-Za-z][\w.\-/]*) (?:\d+\.\d+s|\(cached\)|\[(?:build|setup) failed\])(?: coverage:.*)?$"
    ),
    # cargo; tests in the documentation have blanks in their names
    re.compile(r"test (?P<name>\S.*?)(?: - should panic)? \.\.\. (?P<state>ok|FAILED|ignored)\b"),
    # unittest, Django
    re.compile(
        r"(?P<name>\w+ \([\w.]+\)).* ?\.\.\. (?P<state>ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b"
    ),
    re.compile(r"(?P<state>FAIL|ERROR): (?P<name>[\w.]+ \([\w.]+\))"),
    # jest, vitest: files
    re.compile(r"(?P<state>PASS|FAIL) (?P<name>[\w./\-@]+\.\w+)(?= |$)"),
    # jest, vitest, mocha: single tests
    re.compile(
        r"(?P<state>[✓✔√✕✗×○]) (?:skipped )?(?P<name>\S.*?)(?: \(\d+ tests?\b[^)]*\))?(?: \(?\d+(?:\.\d+)? ?m?s\)?)?$"
    ),
    # TAP
    re.compile(r"(?P<state>ok|not ok) \d+ (?:- )?(?P<name>[^#]*[^# ])(?: # ?(?P<note>SKIP|skip|TODO|todo)?.*)?$"),
)
_SUREFIRE: Final = re.compile(
    r"Tests run: \d+, Failures: (?P<failed>\d+), Errors: (?P<broken>\d+), .{0,120}\bin (?P<name>[\w.$]+)$"
)
"""Maven: a class of tests."""
_DESCRIBED: Final = re.compile(r"\w+ \([\w.]+\)")
"""unittest: a test whose own words follow in the next line."""
_MOCHA_END: Final = re.compile(r"^ *\d+ passing \(", re.MULTILINE)
_MOCHA_FAILED: Final = re.compile(r"^ {2,40}\d{1,4}\) (\S[^\n]*)$", re.MULTILINE)
_JUNIT: Final = re.compile(r"<testcase\b(?P<head>[^<>]{0,1000}?)(?P<single>/)?>")
_ATTRIBUTE: Final = re.compile(r"\b(classname|name)=\"([^\"]*)\"")


def tests_in(text: str, limit: int) -> dict[str, TestState]:
    """Return the tests that a runner's output names, with their states; the failed and then the last ones of too many.

    Args:
        text: Output, without escape codes, of pytest, unittest, jest, vitest, mocha, go, cargo, maven, gradle, of anything
            that prints TAP, or JUnit's XML.
        limit: Most tests to return.
    """
    if "<testcase" not in text and not any(hint in text for hint in _HINTS):
        return {}
    found: dict[str, TestState] = {}
    for name, state in (*_of_mocha(text), *_printed(text), *_reported(text)):
        if 0 < len(name) <= _NAME_CHARS:
            found.pop(name, None)
            found[name] = state
    if len(found) <= limit:
        return found
    order = sorted(found.items(), key=lambda item: item[1] == "failed")[-limit:]
    return dict(order)


def _printed(text: str) -> Iterator[tuple[str, TestState]]:
    """Yield what is told one a line; runs of blanks count as one, so that no expression has much to try."""
    described = ""
    for raw in text.splitlines():
        if len(raw) > _LINE_CHARS:
            continue
        is_hinted = any(hint in raw for hint in _HINTS)
        if not is_hinted and "(" not in raw:
            described = ""
            continue
        line = " ".join(raw.split())
        if described and is_hinted and "::" not in line:
            line = f"{described} {line}"
        described = line if _DESCRIBED.fullmatch(line) else ""
        if is_hinted:
            yield from _of_line(line)


def _of_line(line: str) -> Iterator[tuple[str, TestState]]:
    found = next((match for pattern in _LINES if (match := pattern.match(line))), None)
    if found is not None:
        is_skipped = found.groupdict().get("note") is not None
        yield found["name"].strip(), "skipped" if is_skipped else _STATES[found["state"].lower()]
        return
    whole = _SUREFIRE.search(line) if "Tests run:" in line else None
    if whole is not None:
        yield whole["name"], "passed" if whole["failed"] == whole["broken"] == "0" else "failed"


def _of_mocha(text: str) -> Iterator[tuple[str, TestState]]:
    """Yield the failed tests of mocha: numbers before names, which mean a test only above the line that counts them."""
    end = _MOCHA_END.search(text)
    if end is not None:
        for match in _MOCHA_FAILED.finditer(text, 0, end.start()):
            yield match[1].strip(), "failed"


def _reported(text: str) -> Iterator[tuple[str, TestState]]:
    """Yield what JUnit's XML says."""
    for case in _JUNIT.finditer(text):
        named = dict(_ATTRIBUTE.findall(case["head"]))
        body = "" if case["single"] else text[case.end() : case.end() + _CASE_CHARS]
        body = body.partition("</testcase>")[0].partition("<testcase")[0]
        state: TestState = "failed" if "<failure" in body or "<error" in body else "passed"
        if "<skipped" in body:
            state = "skipped"
        parts = (named.get("classname"), named.get("name"))
        yield ".".join(unescape(part) for part in parts if part), state
