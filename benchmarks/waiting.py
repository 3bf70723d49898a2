"""B9: how long a user waits for summaries: each takes two seconds, each step 50 ms to a second, on a clock that jumps.

    python -m benchmarks.waiting [--short] [--seeds 3] [--json FILE]

Between the end of one answer and the next request of the conversation nothing takes time on this clock but what is
awaited of the model, so that this gap is what the user waits for a summary.
"""

from __future__ import annotations

import random
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks._agents import SIDES, Side, quiet
from benchmarks._bill import MAIN_SHEET, SHEETS
from benchmarks._money import ours, play, stock
from benchmarks._report import Target, conclude, options_parser
from benchmarks._trajectory import make_trajectory
from benchmarks._virtual import run_without_waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY_S = 2.0
LEAST_STEP_S, MOST_STEP_S = 0.05, 1.0
WINDOWS = (128_000, 200_000)
STEPS = 600
LEAST_GAP_S = 1e-6
"""Rounding of the clock."""
TRIGGERS = (None, 0.8)
"""By the mode, and at the host's own ratio."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of one side."""

    side: Side
    window: int
    trigger_ratio: float | None
    seed: int
    compressions: int
    """Those with a summary; of stock its summary calls."""
    cleared: int
    """Those without one, which nobody ever waits for."""
    prepared: int
    without_model: int
    """Those whose summary was made by code, because none was ready."""
    waits: int
    """Gaps between an answer and the next request."""
    waited_s: float
    requests: int
    """Requests for a summary."""


async def measure(side: Side, window: int, trigger_ratio: float | None, seed: int) -> Row:
    """Return how long the user of one run waits."""
    rnd = random.Random(seed)
    took = [rnd.uniform(LEAST_STEP_S, MOST_STEP_S) for _ in range(STEPS + 1)]
    config = {} if trigger_ratio is None else {"trigger_ratio": trigger_ratio}
    arm = stock() if side == "stock" else ours("ctxkit", SHEETS[MAIN_SHEET], **config)
    trajectory = make_trajectory(STEPS, seed=seed)
    played = await play(arm, trajectory, window=window, chat_s=lambda number: took[number], summary_s=SUMMARY_S)
    gaps = [came - said for (_, said), (came, _) in pairwise(played.spans) if came - said > LEAST_GAP_S]
    done = [receipt for receipt in played.receipts if receipt.outcome == "applied"]
    summarised = [receipt for receipt in done if receipt.summary != "none"]
    return Row(
        side=side,
        window=window,
        trigger_ratio=trigger_ratio,
        seed=seed,
        compressions=len(played.summaries) if side == "stock" else len(summarised),
        cleared=len(done) - len(summarised),
        prepared=sum(receipt.is_prepared for receipt in summarised),
        without_model=sum(receipt.summary == "extractive" for receipt in summarised),
        waits=len(gaps),
        waited_s=round(sum(gaps), 3),
        requests=len(played.summaries),
    )


def show(rows: Sequence[Row], console: Console) -> None:
    """Print both sides' waiting."""
    table = Table(
        title=f"B9 waiting for summaries of {SUMMARY_S:g} s in {STEPS} steps of {LEAST_STEP_S} to {MOST_STEP_S:g} s"
    )
    for title in (
        "side",
        "window",
        "due at",
        "compressions",
        "prepared",
        "by code",
        "cleared alone",
        "waits",
        "waited",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row.side,
            f"{row.window:,}",
            "the mode" if row.trigger_ratio is None else f"{row.trigger_ratio:g}",
            f"{row.compressions}",
            f"{row.prepared}",
            f"{row.without_model}",
            f"{row.cleared}",
            f"{row.waits}",
            f"{row.waited_s:g} s",
        )
    console.print(table)


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it."""
    mine = [row for row in rows if row.side == "ctxkit"]
    done = sum(row.compressions for row in mine)
    free = 1 - sum(row.waits for row in mine) / done if done else 0.0
    prepared = sum(row.prepared for row in mine) / done if done else 0.0
    host = [row for row in rows if row.side == "stock"]
    waits, calls = sum(row.waits for row in host), sum(row.compressions for row in host)
    return [
        Target(name="compressions that nobody waited for", wanted=">= 99%", measured=f"{free:.1%}", met=free >= 0.99),
        Target(
            name="compressions with a prepared summary",
            wanted=">= 95%",
            measured=f"{prepared:.1%}",
            met=prepared >= 0.95,
        ),
        Target(name="stock's that the user waits for", wanted="all", measured=f"{waits} of {calls}", met=True),
    ]


async def measure_all(*, windows: Sequence[int], seeds: int) -> list[Row]:
    """Return all runs."""
    return [
        await measure(side, window, trigger, seed)
        for window in windows
        for seed in range(seeds)
        for side in SIDES
        for trigger in (TRIGGERS if side == "ctxkit" else (None,))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B9: how long a user waits for summaries.").parse_args(arguments)
    quiet()
    windows, seeds = ((200_000,), 1) if options.short else (WINDOWS, options.seeds)
    rows = run_without_waiting(measure_all(windows=windows, seeds=seeds))
    console = Console(width=120)
    show(rows, console)
    return conclude("B9", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(main())
