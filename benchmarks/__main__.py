"""Runs every benchmark in a process of its own: `python -m benchmarks --seeds 3`.

A benchmark is a module here that can be run by itself, takes `--seeds` and `--json`, and writes whether its target was
met. One that ends without figures is broken and fails the run; a target that is missed is told, and fails the run
where `--strict` is given, since figures of time depend on the machine.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def benchmarks() -> list[str]:
    """Return the names of the modules that can be run by themselves."""
    files = (path for path in sorted(HERE.glob("*.py")) if not path.name.startswith("_"))
    return [path.stem for path in files if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]


def run(name: str, *, seeds: int) -> bool | None:
    """Run one benchmark; return whether its target was met, `None` where it broke."""
    figures = RESULTS / f"{name}.json"
    figures.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--seeds", str(seeds), "--json", str(figures)]
    subprocess.run(command, check=False, cwd=HERE.parent)
    return bool(json.loads(figures.read_text(encoding="utf-8"))["met"]) if figures.exists() else None


def main() -> int:
    """Run what was asked for, all unless said otherwise; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure ctxkit beside AgentScope's built-in.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(benchmarks())}; all if none")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each case, default 3")
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    for name in options.names or benchmarks():
        started = time.monotonic()
        print(f"\n=== {name}", flush=True)
        outcomes[name] = run(name, seeds=options.seeds)
        print(f"=== {name} took {time.monotonic() - started:.0f} s", flush=True)
    print()
    for name, met in outcomes.items():
        print(f"{name:<12} {'broken' if met is None else 'met' if met else 'NOT met'}")
    failed = None in outcomes.values() or (options.strict and False in outcomes.values())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
