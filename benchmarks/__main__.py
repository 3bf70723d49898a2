"""Runs every benchmark in a process of its own: `python -m benchmarks --short`, or without it in full.

A benchmark is a module here that can be run by itself, takes `--seeds`, `--short` and `--json`, and writes whether its
target was met. One that ends without figures is broken and fails the run; a target that is missed is told, and fails the
run where `--strict` is given, since figures of time depend on the machine.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def benchmarks() -> list[str]:
    """Return the names of the modules that can be run by themselves."""
    files = (path for path in sorted(HERE.glob("*.py")) if not path.name.startswith("_"))
    return [path.stem for path in files if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]


def run(name: str, *, options: argparse.Namespace) -> dict[str, Any] | None:
    """Run one benchmark; return its figures, `None` where it broke."""
    figures = RESULTS / f"{name}.json"
    figures.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--seeds", str(options.seeds), "--json", str(figures)]
    subprocess.run([*command, *(["--short"] if options.short else [])], check=False, cwd=HERE.parent)
    if not figures.exists():
        return None
    told: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    return told


def verdict(figures: dict[str, Any] | None) -> str:
    """Return in a word or two what came of a benchmark."""
    if figures is None:
        return "broken"
    if "skipped" in figures:
        return f"skipped: {figures['skipped']}"
    return "met" if figures["met"] else "NOT met"


def main() -> int:
    """Run what was asked for, all unless said otherwise; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure ctxkit beside AgentScope's built-in.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(benchmarks())}; all if none")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each case, default 1")
    parser.add_argument("--short", action="store_true", help="a smaller form of each, about ten minutes together")
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    parser.add_argument("--json", type=Path, default=RESULTS / "all.json", help="where all figures go together")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, dict[str, Any] | None] = {}
    for name in options.names or benchmarks():
        started = time.monotonic()
        print(f"\n=== {name}", flush=True)
        outcomes[name] = run(name, options=options)
        print(f"=== {name} took {time.monotonic() - started:.0f} s", flush=True)
    options.json.write_text(json.dumps(outcomes, indent=2) + "\n", encoding="utf-8")
    print()
    for name, figures in outcomes.items():
        print(f"{name:<12} {verdict(figures)}")
    failed = None in outcomes.values() or (options.strict and not all(f and f["met"] for f in outcomes.values()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
