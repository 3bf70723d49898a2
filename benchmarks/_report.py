"""What all benchmarks have in common: their options, their verdict, and their figures as JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Target:
    """One figure that was promised."""

    name: str
    wanted: str
    measured: str
    met: bool


def options_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each case, default 1")
    parser.add_argument("--short", action="store_true", help="a smaller form, for a quick look")
    return parser


def conclude(
    benchmark: str,
    targets: Sequence[Target],
    rows: Sequence[Mapping[str, Any]],
    *,
    options: argparse.Namespace,
    console: Console,
) -> int:
    """Print which targets are met and write the figures; return the exit code, 0 where all are met."""
    for target in targets:
        verdict = "met" if target.met else "[bold]NOT met[/bold]"
        console.print(f"{target.name}: wanted {target.wanted}, measured {target.measured}: {verdict}", highlight=False)
    met = all(target.met for target in targets)
    if options.json:
        figures = {
            "benchmark": benchmark,
            "short": options.short,
            "seeds": options.seeds,
            "met": met,
            "targets": [asdict(target) for target in targets],
            "rows": list(rows),
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0 if met else 1


def skip(benchmark: str, *, options: argparse.Namespace, reason: str) -> int:
    """Write that a benchmark could not run here, which is no failure; return the exit code, 0."""
    if options.json:
        figures = {"benchmark": benchmark, "met": True, "skipped": reason, "targets": [], "rows": []}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0
