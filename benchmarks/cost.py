"""B6: what a run costs where the provider caches prefixes: ctxkit beside AgentScope's own, by price sheet and window.

    python -m benchmarks.cost [--short] [--seeds 8] [--json FILE]

Each run is played through a real agent with 20 tools; each request is billed as it was sent, summaries and lookups
included. Beside stock stand: stock with the same tool-result limit, stock with all but the newest ten results masked at
every step, and a bound below which no context management can go.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks._agents import quiet
from benchmarks._bill import MAIN_SHEET, SHEETS, least_price
from benchmarks._money import Arm, Played, masking, ours, play, stock
from benchmarks._report import Target, conclude, options_parser
from benchmarks._trajectory import Trajectory, make_trajectory
from benchmarks._virtual import run_without_waiting
from ctxkit import ResultsConfig, TriggersConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxkit import Price

HOST_LIMIT = 50_000
"""Most tokens of one tool result in AgentScope's default."""
OUR_LIMIT = ResultsConfig().limit_tokens
"""The same in ctxkit's."""
OURS, OURS_CHEAP, OURS_WHOLE = "ctxkit", "ctxkit, mode cost", f"ctxkit, limit {HOST_LIMIT:,}"
STOCK, STOCK_SAME, MASKING = "stock", f"stock, limit {OUR_LIMIT:,}", "mask every step"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One length of run in one window, and the most that ctxkit may cost there beside stock on the main price sheet."""

    window: int
    steps: int
    wanted: float | None
    sheets: tuple[str, ...] = tuple(SHEETS)


SHORT_CASES = (Case(window=200_000, steps=300, wanted=0.60, sheets=(MAIN_SHEET,)),)
CASES = (
    Case(window=128_000, steps=300, wanted=0.72),
    Case(window=200_000, steps=300, wanted=0.60),
    Case(window=1_000_000, steps=300, wanted=0.25),
    Case(window=200_000, steps=1500, wanted=None, sheets=(MAIN_SHEET,)),
)
OTHER_SHEETS_WANTED = 0.75
BOUND_WANTED = 1.9


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run under one management, billed by one price sheet."""

    window: int
    steps: int
    sheet: str
    seed: int
    arm: str
    price: float
    """In uncached input tokens."""
    beside_stock: float
    beside_bound: float
    """Of the same tool-result limit."""
    summaries: int
    recalls: int
    missed: int
    largest: int
    """Tokens of the largest request."""


def arms_of(sheet: Price) -> list[Arm]:
    """Return ctxkit's arms, which decide by what tokens cost."""
    return [
        ours(OURS, sheet),
        ours(OURS_CHEAP, sheet, triggers=TriggersConfig(mode="cost")),
        ours(OURS_WHOLE, sheet, tool_result_limit=HOST_LIMIT),
    ]


async def measure(case: Case, seed: int) -> list[Row]:
    """Return the bills of one run on all price sheets; what does not look at prices is played once."""
    trajectory = make_trajectory(case.steps, seed=seed)
    others = [stock(STOCK), stock(STOCK_SAME, tool_result_limit=OUR_LIMIT), masking()]
    fixed = [(arm, await play(arm, trajectory, window=case.window)) for arm in others]
    rows = []
    for name in case.sheets:
        told = [(arm, await play(arm, trajectory, window=case.window)) for arm in arms_of(SHEETS[name])]
        rows += [_row(case, trajectory, name, *each, base=fixed[0][1]) for each in (*fixed, *told)]
    return rows


def _row(case: Case, trajectory: Trajectory, sheet: str, arm: Arm, played: Played, *, base: Played) -> Row:
    prices = SHEETS[sheet]
    limit = arm.config.get("tool_result_limit", OUR_LIMIT if arm.side == "ctxkit" else HOST_LIMIT)
    bound = least_price(trajectory, prices, fixed_tokens=base.fixed_tokens, result_limit=limit)
    return Row(
        window=case.window,
        steps=case.steps,
        sheet=sheet,
        seed=trajectory.seed,
        arm=arm.name,
        price=round(played.price(prices)),
        beside_stock=played.price(prices) / base.price(prices),
        beside_bound=played.price(prices) / bound,
        summaries=len(played.summaries),
        recalls=played.recalls,
        missed=played.missed,
        largest=played.largest,
    )


def chosen(rows: Iterable[Row], case: Case, sheet: str, arm: str) -> list[Row]:
    """Return the rows of one arm, a seed each."""
    return [row for row in rows if (row.window, row.steps, row.sheet, row.arm) == (case.window, case.steps, sheet, arm)]


def show(rows: Sequence[Row], cases: Sequence[Case], console: Console) -> None:
    """Print the bills beside stock's."""
    arms = list(dict.fromkeys(row.arm for row in rows))
    for case in cases:
        table = Table(title=f"B6 bill beside stock's: window {case.window:,}, {case.steps} steps (times the bound)")
        for title in ("prices", *arms):
            table.add_column(title, justify="right")
        for sheet in case.sheets:
            table.add_row(sheet, *(_cell(chosen(rows, case, sheet, arm)) for arm in arms))
        console.print(table)


def _cell(rows: Sequence[Row]) -> str:
    beside = f"{median(row.beside_stock for row in rows):.2f} ({median(row.beside_bound for row in rows):.2f})"
    return f"{beside}\n{median(row.summaries for row in rows):g} sum., {median(row.recalls for row in rows):g} rec."


def targets(rows: Sequence[Row], cases: Sequence[Case]) -> list[Target]:
    """Return what was promised of the defaults, and what came of it."""
    made = []
    for case in cases:
        where = f"window {case.window:,}, {case.steps} steps"
        main = median(row.beside_stock for row in chosen(rows, case, MAIN_SHEET, OURS))
        if case.wanted is not None:
            made.append(_at_most(f"beside stock, {where}, {MAIN_SHEET}", case.wanted, main))
        others = [
            median(row.beside_stock for row in chosen(rows, case, sheet, OURS))
            for sheet in case.sheets
            if sheet != MAIN_SHEET
        ]
        if others:
            made.append(_at_most(f"worst of the other sheets, {where}", OTHER_SHEETS_WANTED, max(others)))
        bound = median(row.beside_bound for row in chosen(rows, case, MAIN_SHEET, OURS))
        made.append(_at_most(f"beside the bound, {where}, {MAIN_SHEET}", BOUND_WANTED, bound))
        masked = median(row.beside_stock for row in chosen(rows, case, MAIN_SHEET, MASKING))
        made.append(_at_most(f"beside masking every step, {where}, {MAIN_SHEET}", 1.0, main / masked))
        same = median(row.beside_stock for row in chosen(rows, case, MAIN_SHEET, STOCK_SAME))
        made.append(_at_most(f"both with limit {OUR_LIMIT:,}, {where}, {MAIN_SHEET}", 1.0, main / same))
    return made


def _at_most(name: str, wanted: float, measured: float) -> Target:
    return Target(name=name, wanted=f"<= {wanted:.2f}", measured=f"{measured:.2f}", met=measured <= wanted)


async def measure_all(cases: Sequence[Case], *, seeds: int) -> list[Row]:
    """Return all bills."""
    return [row for case in cases for seed in range(seeds) for row in await measure(case, seed)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B6: what a run costs.").parse_args(arguments)
    quiet()
    cases = SHORT_CASES if options.short else CASES
    seeds = 1 if options.short else options.seeds
    rows = run_without_waiting(measure_all(cases, seeds=seeds))
    console = Console(width=120)
    show(rows, cases, console)
    return conclude("B6", targets(rows, cases), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(main())
