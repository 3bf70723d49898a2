"""Big results never hold the event loop."""

from __future__ import annotations

import json

import pytest

from ctxkit.results import defuse, shorten_arguments, shorten_text

SIZE = 20_000_000
LONGEST_S = 0.05


def _repeat(unit: str) -> str:
    return unit * (SIZE // len(unit))


TEXTS = {
    "prose": lambda: _repeat("It was a fine day, and the fox went out.\n"),
    "one line": lambda: _repeat("x"),
    "cjk": lambda: _repeat("今天天气很好"),
    "log": lambda: _repeat("2026-01-02 10:00:00 INFO step done\n2026-01-02 10:00:01 ERROR failed 7\n"),
    "csv": lambda: "a,b,c\n" + _repeat('1,"two, and",3\n'),
    "csv of one line": lambda: "a,b,c\n" * 900 + _repeat('"x",'),
    "diff": lambda: _repeat("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
    "json list": lambda: "[" + _repeat('{"id": 12345, "name": "some name", "tags": ["a", "b"]},') + "1]",
    "json deep": lambda: '{"data": {"rows": [' + _repeat('{"id": 1, "n": "x"},') + '1]}, "ok": true}',
    "json string": lambda: json.dumps({"body": _repeat('line "quoted" \\ text\n')}),
    "json numbers": lambda: "[[" + _repeat("1.5,") + "1]]",
    "json lines": lambda: _repeat('{"id": 12345, "name": "some name"}\n'),
    "markup": lambda: _repeat("<span><table><tr><td>x</td></tr></table></span>"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.asyncio
async def test_a_result_of_20_mb_never_holds_the_loop(ruler, make, stall, name) -> None:
    text = TEXTS[name]()
    limits = make(4000)
    assert await stall(lambda: shorten_text(text, tool_name="x", limits=limits, ruler=ruler, reference="r")) < LONGEST_S


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json string", "json deep", "prose"])
@pytest.mark.asyncio
async def test_arguments_of_20_mb_never_hold_the_loop(ruler, make, stall, name) -> None:
    text = TEXTS[name]()
    assert await stall(lambda: shorten_arguments(text, limits=make(4000), ruler=ruler, reference="r")) < LONGEST_S


@pytest.mark.parametrize("unit", ["plain words and\n", "a < b and <b>x</b> ", "中文字符，", "<", "< ", "<\u200b", "<s"])
def test_defusing_takes_time_in_proportion_to_the_text(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    assert defuse(text) == text
