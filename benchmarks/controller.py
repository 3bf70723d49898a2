"""B7: is the time of compressions well chosen? The controller beside fixed thresholds on the same runs.

    python -m benchmarks.controller [--short] [--seeds 8] [--json FILE]

Mode `cost` is played first; what it left after its compressions, and how far above that they came, are the floor and the
headroom of its run. Then the headroom is taken 0.1 to 8 times, and thresholds are fixed at the floor and 0.1 to 8 times
the headroom. In full, what the price of attention and the ladder's rungs change is played as well: the figures from which
the defaults were chosen.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from statistics import fmean, median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks._agents import quiet
from benchmarks._bill import MAIN_SHEET, SHEETS
from benchmarks._money import ours, play
from benchmarks._report import Target, conclude, options_parser
from benchmarks._trajectory import make_trajectory
from benchmarks._virtual import run_without_waiting
from ctxkit import LadderConfig, TriggersConfig
from ctxkit.triggers.headroom import headroom as real_headroom

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks._money import Played
    from benchmarks._trajectory import Trajectory

WINDOW, STEPS = 200_000, 300
MULTIPLES: tuple[float, ...] = (0.1, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0)
SHORT_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_RATIO = 0.9
"""The latest trigger that AgentScope allows."""
KEPT_STEPS = 5
"""The newest messages keep the growth of so many steps, as they do under the controller."""
SHEET_NAMES: tuple[str, ...] = (MAIN_SHEET, "r0.02 w1", "r0.20 w1")
WANTED = 1.03
CONTROLLER = "mode cost"
DECIDE = import_module("ctxkit.triggers.decide")
"""The module, which the function of its name hides."""
OTHERS: Mapping[str, Mapping[str, Any]] = {
    **{
        f"attention {price:g}": {"triggers": TriggersConfig(mode="balanced", attention_price=price)}
        for price in (0.01, 0.02, 0.05, 0.1, 0.2)
    },
    "mode quality": {"triggers": TriggersConfig(mode="quality")},
    "keep_results 3": {"ladder": LadderConfig(keep_results=3)},
    "keep_results 5": {"ladder": LadderConfig(keep_results=5)},
    "keep_results 10": {"ladder": LadderConfig(keep_results=10)},
    "summaries alone": {"ladder": LadderConfig(rungs=("summarize",))},
    "results, then summaries": {"ladder": LadderConfig(rungs=("clear_results", "summarize"))},
}
"""Settings beside the defaults, for the choice of these."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run under one rule."""

    sheet: str
    seed: int
    rule: str
    multiple: float | None
    """Of the headroom; None where the rule is no fixed threshold."""
    price: float
    resident: float
    """Mean tokens of a request."""
    compressions: int
    summaries: int
    recalls: int
    missed: int


async def measure(sheet: str, seed: int, multiples: Sequence[float], *, others: bool) -> list[Row]:
    """Return the bills of one run under the controller, under fixed thresholds, and under other settings."""
    trajectory, prices = make_trajectory(STEPS, seed=seed), SHEETS[sheet]

    async def row(rule: str, multiple: float | None = None, **config: Any) -> tuple[Row, Played]:
        played = await play(ours(rule, prices, **config), trajectory, window=WINDOW)
        chats = [call.tokens for call in played.calls if call.kind == "chat"]
        figures = Row(
            sheet=sheet,
            seed=seed,
            rule=rule,
            multiple=multiple,
            price=round(played.price(prices)),
            resident=round(fmean(chats)),
            compressions=sum(receipt.outcome == "applied" for receipt in played.receipts),
            summaries=len(played.summaries),
            recalls=played.recalls,
            missed=played.missed,
        )
        return figures, played

    cost = TriggersConfig(mode="cost")
    first, played = await row(CONTROLLER, triggers=cost)
    rows = [first]
    floor, headroom = floor_and_headroom(played)
    keep_ratio = KEPT_STEPS * growth(trajectory) / WINDOW
    for multiple in multiples:
        with patch.object(DECIDE, "headroom", _times(multiple)):
            rows.append((await row("headroom times", multiple, triggers=cost))[0])
        trigger = min(MOST_RATIO, (floor + multiple * headroom) / WINDOW)
        config = {"trigger_ratio": trigger, "reserve_ratio": min(keep_ratio, trigger / 2), "context_buffer_ratio": 0.01}
        rows.append((await row("fixed at floor and", multiple, **config))[0])
    if others:
        rows += [(await row(name, **config))[0] for name, config in OTHERS.items()]
    return rows


def floor_and_headroom(played: Played) -> tuple[float, float]:
    """Return the median tokens behind the compressions of a run, and by how much their triggers lay above."""
    done = [receipt for receipt in played.receipts if receipt.outcome == "applied"]
    if not done:
        return float(played.fixed_tokens), float(WINDOW) / 4
    floor = median(receipt.tokens_after for receipt in done)
    return floor, max(1000.0, median(receipt.limit_tokens for receipt in done) - floor)


def growth(trajectory: Trajectory) -> float:
    """Return the tokens that a run adds a step."""
    return fmean(step.answer_tokens + step.result_tokens for step in trajectory.steps)


def _times(multiple: float) -> Callable[..., float]:
    def headroom(*args: Any, **kwargs: Any) -> float:
        return multiple * real_headroom(*args, **kwargs)

    return headroom


def show(rows: Sequence[Row], console: Console) -> None:
    """Print each rule's bill beside the controller's."""
    table = Table(title=f"B7 bills beside the controller's, window {WINDOW:,}, {STEPS} steps")
    for title in ("prices", "rule", "bill", "mean request", "compressions", "summaries", "recalls", "missed"):
        table.add_column(title, justify="right")
    for sheet, rule, multiple in dict.fromkeys((row.sheet, row.rule, row.multiple) for row in rows):
        same = [row for row in rows if (row.sheet, row.rule, row.multiple) == (sheet, rule, multiple)]
        table.add_row(
            sheet,
            rule if multiple is None else f"{rule} {multiple:g}",
            f"{median(beside(rows, row) for row in same):.3f}",
            f"{median(row.resident for row in same):,.0f}",
            *(
                f"{median(getattr(row, name) for row in same):g}"
                for name in ("compressions", "summaries", "recalls", "missed")
            ),
        )
    console.print(table)


def beside(rows: Sequence[Row], row: Row) -> float:
    """Return a bill beside the controller's of the same run and prices."""
    return row.price / next(
        each.price for each in rows if (each.sheet, each.seed, each.rule) == (row.sheet, row.seed, CONTROLLER)
    )


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it: of medians over the seeds, by price sheet."""
    made = []
    for sheet in dict.fromkeys(row.sheet for row in rows):
        swept = [row for row in rows if row.sheet == sheet and row.multiple is not None]
        keys = dict.fromkeys((row.rule, row.multiple) for row in swept)
        best, key = min(
            (median(beside(rows, row) for row in swept if (row.rule, row.multiple) == key), key) for key in keys
        )
        made.append(
            Target(
                name=f"controller beside the best of the sweep ({key[0]} {key[1]:g}), {sheet}",
                wanted=f"<= {WANTED:.2f}",
                measured=f"{1 / best:.3f}",
                met=1 / best <= WANTED,
            )
        )
    return made


async def measure_all(sheets: Sequence[str], multiples: Sequence[float], *, seeds: int, others: bool) -> list[Row]:
    """Return all bills."""
    return [
        row for sheet in sheets for seed in range(seeds) for row in await measure(sheet, seed, multiples, others=others)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B7: is the time of compressions well chosen?").parse_args(arguments)
    quiet()
    sheets, multiples, seeds = SHEET_NAMES, MULTIPLES, options.seeds
    if options.short:
        sheets, multiples, seeds = (MAIN_SHEET,), SHORT_MULTIPLES, 1
    rows = run_without_waiting(measure_all(sheets, multiples, seeds=seeds, others=not options.short))
    console = Console(width=120)
    show(rows, console)
    return conclude("B7", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(main())
