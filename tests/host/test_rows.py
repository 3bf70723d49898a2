"""Every row that the mission asks to be shown through a real agent is shown by a test of this folder."""

import re
from pathlib import Path

import pytest

ROWS = [
    *(f"A{number}" for number in range(1, 13)),
    *(f"C{number}" for number in range(1, 11)),
    *(f"D{number}" for number in range(1, 12)),
    *(f"O{number}" for number in range(1, 20)),
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
