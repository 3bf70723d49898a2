"""Draws docs/explanation/when.svg: what a step costs over the headroom, by the functions that decide when to compress.

`python -m benchmarks._headroom_plot` writes it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from pathlib import Path

from ctxkit import Price
from ctxkit.triggers import edit_cost, headroom

TARGET = Path(__file__).parent.parent / "docs" / "explanation" / "when.svg"
GROWTH, TAIL, PREFIX, SUMMARY, ANSWER = 2_000, 15_000, 12_000, 1_500, 250
"""Tokens: a step, what stays behind an edit, what stands before it, the summary, and the answer of a step."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 60, 20, 20, 50
LEAST, MOST = 2_000, 400_000
"""Ends of the axis of headroom, in tokens."""
CEILING = 2.0
"""End of the axis of cost: so many times the least."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One kind of prices and its curve."""

    name: str
    price: Price
    colour: str

    @property
    def cost(self) -> float:
        """K: what an edit costs."""
        return edit_cost(
            self.price,
            request_tokens=PREFIX + TAIL + SUMMARY,
            kept_tokens=TAIL,
            inserted_tokens=SUMMARY,
            answer_tokens=SUMMARY,
        )

    @property
    def best(self) -> float:
        """The headroom of least cost."""
        return headroom(self.cost, GROWTH, self.price)

    def step(self, room: float) -> float:
        """Return what a step costs on average: reads, the new tokens, the answer, and its share of an edit."""
        price = self.price
        reads = price.cached * (PREFIX + TAIL + SUMMARY + room / 2)
        return reads + price.written * GROWTH + price.output * ANSWER + self.cost * GROWTH / room


SHEETS = (
    Sheet(name="no cache", price=Price(cached=1, written=1, output=5), colour="#b3403a"),
    Sheet(name="cached 0.20", price=Price(cached=0.2, written=1, output=4), colour="#b07d2b"),
    Sheet(name="cached 0.10, written 1.25", price=Price(cached=0.1, written=1.25, output=5), colour="#4c8c4a"),
    Sheet(name="cached 0.02", price=Price(cached=0.02, written=1, output=4), colour="#2f6fa8"),
)


def across(room: float) -> float:
    """Return the place of a headroom on the horizontal axis."""
    return LEFT + (WIDTH - LEFT - RIGHT) * log10(room / LEAST) / log10(MOST / LEAST)


def up(ratio: float) -> float:
    """Return the place of a cost on the vertical axis."""
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (ratio - 1) / (CEILING - 1)


def curve(sheet: Sheet) -> str:
    """Return one curve with its least point and its name."""
    least = sheet.step(sheet.best)
    rooms = [LEAST * (MOST / LEAST) ** (n / 160) for n in range(161)]
    points = [(room, sheet.step(room) / least) for room in rooms]
    line = " ".join(f"{across(room):.1f},{up(ratio):.1f}" for room, ratio in points if ratio <= CEILING)
    number = SHEETS.index(sheet)
    return "\n".join(
        [
            f'<polyline points="{line}" fill="none" stroke="{sheet.colour}" stroke-width="2"/>',
            f'<circle cx="{across(sheet.best):.1f}" cy="{up(1):.1f}" r="4" fill="{sheet.colour}"/>',
            (
                f'<text x="{WIDTH - RIGHT - 10}" y="{TOP + 16 + 18 * number}" text-anchor="end" fill="{sheet.colour}">'
                f"{sheet.name}: {sheet.best / 1000:.0f}k</text>"
            ),
        ]
    )


def plot() -> str:
    """Return the picture as SVG."""
    grid = []
    for room in (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000):
        x = across(room)
        grid.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#8884"/>')
        label = f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{room // 1000}k</text>'
        grid.append(label)
    for ratio in (1.0, 1.25, 1.5, 1.75, 2.0):
        y = up(ratio)
        grid.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#8884"/>')
        grid.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{ratio:g}x</text>')
    title = "headroom between two compressions, tokens; the dots are where a step costs least"
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                'font-size="12" fill="#777">'
            ),
            *grid,
            *map(curve, SHEETS),
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{title}</text>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(plot(), encoding="utf-8")
