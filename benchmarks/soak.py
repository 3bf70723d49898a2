"""R7: thousands of turns in a window of 8,192 tokens: time and memory stay flat, and nothing is lost.

    python -m benchmarks.soak [--short] [--json FILE]

One soak runs through AgentScope's own agent, with ctxkit's workspace, sessions saved after each reply, and searches by
the agent; the other drives the engine alone, on the agent of the unit tests, for much longer. Each has a process of its
own. There is no stock side: in such a window it loses what this is about (B2).
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._process import tells_figures
from benchmarks._report import Target, conclude, options_parser, skip

TURNS = {"agent": (5000, 200), "port": (100_000, 2000)}
"""Name of the soak to its turns, and to those of the short form."""
FLAT = 1.2
"""So many times the first tenth the last one may be."""


async def run(name: str, turns: int) -> dict[str, Any]:
    """Run one soak in a process of its own and return its figures."""
    with tempfile.TemporaryDirectory(prefix="r7-") as folder:
        figures = Path(folder, "figures.json")
        command = (sys.executable, "-m", f"benchmarks._soak_{name}", str(turns), str(figures))
        child = await asyncio.create_subprocess_exec(*command)
        if await child.wait():
            msg = f"{' '.join(command)} ended with {child.returncode}"
            raise RuntimeError(msg)
        return {"soak": name, **json.loads(figures.read_text("utf-8"))}  # noqa: ASYNC240 - nothing else runs


def show(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print each soak by tenths, and what was found at its end."""
    for row in rows:
        table = Table(
            title=f"R7 {row['soak']}: {row['turns']:,} turns, {row['compressions']:,} compressions, by tenths"
        )
        for title in ("tenth", "processor ms a turn", "mean", "ms a turn", "memory MiB"):
            table.add_column(title, justify="right")
        columns = zip(row["processor_ms"], row["processor_mean_ms"], row["wall_ms"], row["memory_mib"], strict=True)
        for number, figures in enumerate(columns, 1):
            table.add_row(f"{number}", *(f"{figure:,.2f}" for figure in figures))
        console.print(table)
        told = {key: value for key, value in row.items() if not isinstance(value, list) or key == "search_ms"}
        console.print(", ".join(f"{key} {value}" for key, value in told.items()), highlight=False)


def targets(rows: Sequence[Mapping[str, Any]]) -> list[Target]:
    """Return what was promised, and what came of it."""
    return [target for row in rows for target in (*_flat(row), *_whole(row))]


def _flat(row: Mapping[str, Any]) -> list[Target]:
    found = []
    for what, key in (("time a turn", "processor_ms"), ("memory", "memory_mib")):
        ratio = row[key][-1] / row[key][0]
        name = f"{row['soak']}: {what}, last tenth beside first"
        found.append(Target(name=name, wanted=f"<= {FLAT}x", measured=f"{ratio:.2f}x", met=ratio <= FLAT))
    return found


def _whole(row: Mapping[str, Any]) -> list[Target]:
    name, turns, fact_turn = row["soak"], row["turns"], row["fact_turn"]
    lost, failed, refused = row["unreadable"], row["failures"], row.get("refused", 0)
    return [
        Target(name=f"{name}: texts not readable", wanted="0", measured=f"{lost} of {2 * turns:,}", met=not lost),
        Target(
            name=f"{name}: fact of turn {fact_turn}", wanted="one call", measured=str(row["found"]), met=row["found"]
        ),
        Target(
            name=f"{name}: failures, requests over the window",
            wanted="0, 0",
            measured=f"{failed}, {refused}",
            met=not failed and not refused,
        ),
    ]


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("R7: is a long session as quick and small as a short one?").parse_args(arguments)
    if not tells_figures():
        return skip("R7", options=options, reason="this system does not tell what memory a process has")
    rows = [await run(name, turns[options.short]) for name, turns in TURNS.items()]
    console = Console()
    show(rows, console)
    return conclude("R7", targets(rows), rows, options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
