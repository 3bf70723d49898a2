"""Every row that the mission asks to be shown through a real agent is shown by a test of this folder."""

import re
from pathlib import Path

import pytest

ROWS = [
    *(f"A{number}" for number in range(1, 13)),
    *(f"C{number}" for number in range(1, 11)),
    *"D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 O1 O2 O4 O6 O7 O8 O9 O10 O11 O12 O13 O14 O15 O16 O17".split(),
    *"X1 X2 X3 X4 X5 X6 X7 X8 X9 X10 X11 X12 X14 X15 X17 X19".split(),
]
MARKS = re.compile(r"\bmark\.row\(([^()]*)\)")


@pytest.fixture(scope="module")
def marked():
    texts = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("test_*.py")]
    return {row for text in texts for mark in MARKS.findall(text) for row in re.findall(r'"([A-Z][0-9]+)"', mark)}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_mission_has_a_test_through_the_host(row, marked):
    assert row in marked
