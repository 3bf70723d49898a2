"""Tests in the output of test runners: their names and how each of them went last."""

# ruff: noqa: RUF001 - the signs are those that runners print

import re
from collections.abc import Iterator
from typing import Final, Literal

TestState = Literal["passed", "failed", "skipped"]

_NAME_CHARS: Final = 160
_STATES: Final[dict[str, TestState]] = {
    "passed": "passed", "pass": "passed", "ok": "passed", "✓": "passed", "✔": "passed", "√": "passed", "success": "passed",
    "failed": "failed", "fail": "failed", "error": "failed", "✕": "failed", "✗": "failed", "×": "failed", "not ok": "failed",
    "failure": "failed", "xpass": "passed", "xpassed": "passed",
    "skipped": "skipped", "skip": "skipped", "ignored": "skipped", "xfail": "skipped", "xfailed": "skipped", "○": "skipped",
}  # fmt: skip
_HINTS: Final = (
    "PASS",
    "FAIL",
    "passed",
    "failed",
    "... ok",
    "... ERROR",
    "... skip",
    "✓",
    "✕",
    "✔",
    "✗",
    "not ok ",
    "ok ",
    "<testcase",
)
_LINES: Final = (
    # pytest: one a line with -v, and in the short summary
    re.compile(r"^(?P<name>[\w./\-]+::\S.*?)\s+(?P<state>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"),
    re.compile(r"^(?P<state>PASSED|FAILED|ERROR)\s+(?P<name>[\w./\-]+(?:::\S+)*\.?\S*)"),
    # go
    re.compile(r"^\s*--- (?P<state>PASS|FAIL|SKIP): (?P<name>\S+)"),
    # cargo
    re.compile(r"^test (?P<name>\S+) \.\.\. (?P<state>ok|FAILED|ignored)\b"),
    # unittest, Django
    re.compile(r"^(?P<name>test\w* \([\w.]+\)).*\.\.\. (?P<state>ok|FAIL|ERROR|skipped)\b"),
    re.compile(r"^(?P<state>FAIL|ERROR): (?P<name>test\w* \([\w.]+\))"),
    # jest, vitest: files and single tests
    re.compile(r"^\s*(?P<state>PASS|FAIL)\s+(?P<name>[\w./\-@]+\.[\w.]+)"),
    re.compile(r"^\s*(?P<state>[✓✔√✕✗×○])\s+(?P<name>\S.*?)(?:\s+\(?\d+(?:\.\d+)?\s?m?s\)?)?\s*$"),
    # TAP
    re.compile(r"^(?P<state>ok|not ok) \d+ (?:- )?(?P<name>\S.*?)(?:\s+#.*)?$"),
)
_JUNIT: Final = re.compile(
    r"<testcase\b(?P<head>[^>]*?)(?P<single>/)?>(?P<body>.{0,400}?)(?=</testcase>|<testcase|\Z)", re.DOTALL
)
_ATTRIBUTE: Final = re.compile(r"\b(classname|name)=\"([^\"]*)\"")


def tests_in(text: str, limit: int) -> dict[str, TestState]:
    """Return the tests that a runner's output names, with their states; the failed and then the last ones of too many.

    Args:
        text: Output of pytest, unittest, jest, vitest, go, cargo, of anything that prints TAP, or JUnit's XML.
        limit: Most tests to return.
    """
    if not any(hint in text for hint in _HINTS):
        return {}
    found: dict[str, TestState] = {}
    for name, state in (*_printed(text), *(_reported(text) if "<testcase" in text else ())):
        if 0 < len(name) <= _NAME_CHARS:
            found.pop(name, None)
            found[name] = state
    if len(found) <= limit:
        return found
    order = sorted(found.items(), key=lambda item: item[1] == "failed")[-limit:]
    return dict(order)


def _printed(text: str) -> Iterator[tuple[str, TestState]]:
    for line in text.splitlines():
        if len(line) > 4 * _NAME_CHARS or not any(hint in line for hint in _HINTS):
            continue
        found = next((match for pattern in _LINES if (match := pattern.match(line))), None)
        if found is not None:
            yield found["name"].strip(), _STATES[found["state"].lower()]


def _reported(text: str) -> Iterator[tuple[str, TestState]]:
    """Yield what JUnit's XML says."""
    for case in _JUNIT.finditer(text):
        named = dict(_ATTRIBUTE.findall(case["head"]))
        body = "" if case["single"] else case["body"]
        state: TestState = "failed" if re.search("<(?:failure|error)", body) else "passed"
        if "<skipped" in body:
            state = "skipped"
        yield ".".join(part for part in (named.get("classname"), named.get("name")) if part), state
