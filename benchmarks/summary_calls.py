"""B8: what summaries cost: how much of their requests the prompt cache serves, and what share of the bill they have.

    python -m benchmarks.summary_calls [--short] [--seeds 8] [--json FILE]

The hit rate is of the last request that the conversation sent, for requests of 60,000 tokens and more: what came since
is new to the cache whoever asks. Below it stands the share of the whole request.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import ctxkit
from benchmarks._agents import Side, quiet
from benchmarks._bill import MAIN_SHEET, SHEETS, total
from benchmarks._money import ours, play, stock
from benchmarks._report import Target, conclude, options_parser
from benchmarks._trajectory import make_trajectory
from benchmarks._virtual import run_without_waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._money import Arm

LARGE_TOKENS = 60_000
WINDOWS: tuple[int, ...] = (128_000, 200_000)
STEPS = 300
HIT_WANTED, SHARE_WANTED = 0.98, 0.10
CACHED_SHEETS = tuple(name for name, sheet in SHEETS.items() if sheet.cached < 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The summaries of one run."""

    side: Side
    trigger: str
    """By which rule a compression was due."""
    window: int
    sheet: str
    seed: int
    summaries: int
    large: int
    """Those of `LARGE_TOKENS` and more."""
    least_hit: float | None
    """Of the large ones, of the last request sent; None where there was none."""
    request_hit: float | None
    """Of the large ones, the mean share of the whole request."""
    share: float
    """Of the bill."""
    prepared: int
    """Compressions that had their summary ready."""


def arms_of(name: str) -> dict[tuple[Side, str], Arm]:
    """Return the arms; those that compress late are there for their large requests."""
    sheet = SHEETS[name]
    return {
        ("stock", "0.8"): stock(),
        ("ctxkit", "mode"): ours("ctxkit", sheet),
        ("ctxkit", "0.8"): ours("ctxkit", sheet, trigger_ratio=0.8),
        ("ctxkit", "mode, summaries alone"): ours("ctxkit", sheet, ladder=ctxkit.LadderConfig(rungs=("summarize",))),
    }


async def measure(window: int, sheet: str, seed: int) -> list[Row]:
    """Return what the summaries of each arm cost on one run."""
    rows = []
    for (side, trigger), arm in arms_of(sheet).items():
        played = await play(arm, make_trajectory(STEPS, seed=seed), window=window)
        large = [each for each in played.summaries if each.tokens >= LARGE_TOKENS]
        rows.append(
            Row(
                side=side,
                trigger=trigger,
                window=window,
                sheet=sheet,
                seed=seed,
                summaries=len(played.summaries),
                large=len(large),
                least_hit=min((min(1.0, each.reused / each.before) for each in large), default=None),
                request_hit=sum(each.reused / each.tokens for each in large) / len(large) if large else None,
                share=total(played.summaries, SHEETS[sheet]) / played.price(SHEETS[sheet]),
                prepared=sum(receipt.is_prepared for receipt in played.receipts),
            )
        )
    return rows


def show(rows: Sequence[Row], console: Console) -> None:
    """Print what summaries cost."""
    table = Table(title=f"B8 summaries of {STEPS} steps; hits of requests from {LARGE_TOKENS:,} tokens on")
    for title in (
        "window",
        "prices",
        "side",
        "due by",
        "summaries",
        "large",
        "least hit",
        "of the request",
        "of the bill",
    ):
        table.add_column(title, justify="right")
    for key in dict.fromkeys((row.window, row.sheet, row.side, row.trigger) for row in rows):
        same = [row for row in rows if (row.window, row.sheet, row.side, row.trigger) == key]
        hits = [row.least_hit for row in same if row.least_hit is not None]
        parts = [row.request_hit for row in same if row.request_hit is not None]
        table.add_row(
            f"{key[0]:,}",
            *key[1:],
            f"{median(row.summaries for row in same):g}",
            f"{median(row.large for row in same):g}",
            f"{min(hits):.3f}" if hits else "",
            f"{median(parts):.3f}" if parts else "",
            f"{median(row.share for row in same):.1%}",
        )
    console.print(table)


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it."""
    mine = [row for row in rows if row.side == "ctxkit"]
    hits = [row.least_hit for row in mine if row.least_hit is not None]
    hit = min(hits, default=0.0)
    made = [
        Target(
            name="least cache hit of large summary calls",
            wanted=">= 0.98",
            measured=f"{hit:.3f}",
            met=hit >= HIT_WANTED,
        )
    ]
    for window, sheet in dict.fromkeys((row.window, row.sheet) for row in mine):
        share = median(row.share for row in mine if (row.window, row.sheet, row.trigger) == (window, sheet, "mode"))
        made.append(
            Target(
                name=f"summaries' share of the bill, window {window:,}, {sheet}",
                wanted="<= 10%",
                measured=f"{share:.1%}",
                met=share <= SHARE_WANTED,
            )
        )
    return made


async def measure_all(windows: Sequence[int], sheets: Sequence[str], *, seeds: int) -> list[Row]:
    """Return what summaries cost in all runs."""
    return [
        row
        for window in windows
        for sheet in sheets
        for seed in range(seeds)
        for row in await measure(window, sheet, seed)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B8: what summaries cost.").parse_args(arguments)
    quiet()
    windows, sheets, seeds = WINDOWS, CACHED_SHEETS, options.seeds
    if options.short:
        windows, sheets, seeds = (200_000,), (MAIN_SHEET,), 1
    rows = run_without_waiting(measure_all(windows, sheets, seeds=seeds))
    console = Console(width=120)
    show(rows, console)
    return conclude("B8", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(main())
