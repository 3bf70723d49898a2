"""R6: what durability costs, ctxkit's store on files beside the host's workspace, which syncs nothing.

    python -m benchmarks.durability [--short] [--json FILE]

Both sides get the same messages through the same method, `offload_context`, by turns. Figures are medians of the runs.
They are of the disk under the directory for temporary files (`TMPDIR`), so that should not be one in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from agentscope.message import Msg, UserMsg
from rich.console import Console
from rich.table import Table

from benchmarks._agents import SIDES, Side, quiet
from benchmarks._process import Stalls, file_system, tells_figures, watched_loop, written_bytes
from benchmarks._report import Target, conclude, options_parser, skip
from benchmarks._stores import open_side
from benchmarks.token_samples import sample

RUNS, SHORT_RUNS = 5, 3
LATE_APPENDS, LATE_BYTES = 600, 131_000_000
"""Of a session in which the host's cost has become visible: so many appends make so many bytes."""
EDGE = 20
"""So many appends at each end of a session are looked at, for the time of one alone says little."""
STOCK_EDGE = 5
MESSAGE_CHARS = 2048
MESSAGES = 500
"""Of one writer; the host's cost of each grows with them."""
EACH_OF_64 = 30
LONG = 4000
"""Messages of a session that has gone on for a while: 8 MB."""
IN_LONG = f", in a session of {LONG:,}"
RESULT_BYTES = 1_000_000_000
RESULT_OPTIONS: dict[Side, tuple[tuple[str, ...], ...]] = {
    "stock": ((),),
    "ctxkit": (("--all",), ("--all", "--redact"), ("--redact",)),
}
"""How a huge result is stored: whole, whole and redacted, and as it is by default, redacted and only head and tail."""
SESSION = "s"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure."""

    side: Side
    what: str
    unit: str
    runs: Sequence[float]

    @property
    def figure(self) -> float:
        """The median of the runs."""
        return median(self.runs)


class Figures:
    """Gathers the figures of all runs."""

    def __init__(self) -> None:
        self._runs: dict[tuple[Side, str, str], list[float]] = {}

    def add(self, side: Side, what: str, unit: str, figure: float) -> None:
        """Take in a figure of one run."""
        self._runs.setdefault((side, what, unit), []).append(figure)

    def rows(self) -> list[Row]:
        """Return all figures."""
        return [Row(side=key[0], what=key[1], unit=key[2], runs=runs) for key, runs in self._runs.items()]

    def of(self, side: Side, what: str) -> float:
        """Return the median of a figure."""
        return next(row.figure for row in self.rows() if (row.side, row.what) == (side, what))

    def ratio(self, above: tuple[Side, str], below: tuple[Side, str]) -> float:
        """Return how many times one figure is another: the median over the runs, for two of one run share its weather."""
        runs = {(row.side, row.what): row.runs for row in self.rows()}
        return median(one / other for one, other in zip(runs[above], runs[below], strict=True))


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What came of some messages being stored, one a call."""

    seconds: float
    written: int
    """Bytes of all writes."""
    stored: int
    """Bytes by which the log has grown."""
    kept: int
    """Lines by which it has."""
    stalls: Stalls | None


def messages(count: int, chars: int) -> list[Msg]:
    """Return messages of so many characters."""
    text = sample("prose", random.Random(count), chars)
    return [UserMsg(name="user", content=f"{number} {text}") for number in range(count)]


async def store_messages(
    side: Side, folder: Path, *, writers: int, each: int, before: int = 0, redact: bool = False, watch: bool = False
) -> Writing:
    """Let some tasks store messages of 2 KB at the same time, each one after another.

    Args:
        side: Who stores them.
        folder: Where.
        writers: Tasks.
        each: Messages of one task.
        before: Messages that the session has already.
        redact: Whether secrets are replaced.
        watch: Whether the event loop is watched meanwhile, which costs a little.
    """
    parts = [messages(each, MESSAGE_CHARS) for _ in range(writers)]

    async def write(part: Sequence[Msg]) -> None:
        for message in part:
            await offloader.offload_context(SESSION, [message])

    async def write_all() -> float:
        started = time.perf_counter()
        await asyncio.gather(*map(write, parts))
        return time.perf_counter() - started

    async with open_side(side, folder, redact=redact) as offloader:
        if before:
            await offloader.offload_context(SESSION, messages(before, MESSAGE_CHARS))
        (size, lines), written, stalls = log_size(folder), written_bytes(), None
        if watch:
            async with watched_loop() as stalls:
                seconds = await write_all()
        else:
            seconds = await write_all()
        written = written_bytes() - written
    stored, kept = log_size(folder)
    return Writing(seconds=seconds, written=written, stored=stored - size, kept=kept - lines, stalls=stalls)


def log_size(folder: Path) -> tuple[int, int]:
    """Return the bytes and the lines of the session's log."""
    logs = [log.read_bytes() for log in (folder / "sessions" / SESSION).glob("context*.jsonl")]
    return sum(map(len, logs)), sum(log.count(b"\n") for log in logs)


async def append_late(side: Side, folder: Path, figures: Figures) -> None:
    """Measure the first and the last appends of a session of 131 MB."""
    contents = messages(LATE_APPENDS, LATE_BYTES // LATE_APPENDS)
    edge = EDGE if side == "ctxkit" else STOCK_EDGE
    async with open_side(side, folder) as offloader:

        async def append(message: Msg) -> float:
            started = time.perf_counter()
            await offloader.offload_context(SESSION, [message])
            return (time.perf_counter() - started) * 1000

        first = [await append(message) for message in contents[:edge]]
        if side == "ctxkit":
            for message in contents[edge:-edge]:
                await append(message)
        else:  # in one call: to let the host write them one by one would write 40 GB
            await offloader.offload_context(SESSION, contents[edge:-edge])
        last = [await append(message) for message in contents[-edge:]]
    figures.add(side, "append 1", "ms", median(first))
    figures.add(side, "append 600 at 131 MB", "ms", median(last))


async def throughput(side: Side, folder: Callable[[], Path], figures: Figures) -> None:
    """Measure how many messages are stored a second, and what is written for them."""
    each_of_64 = EACH_OF_64 if side == "ctxkit" else MESSAGES // 64
    for writers, each in ((1, MESSAGES), (64, each_of_64)):
        what, count = _writers(writers), writers * each
        result = await store_messages(side, folder(), writers=writers, each=each)
        figures.add(side, what, "messages/s", count / result.seconds)
        figures.add(side, f"{what}: messages kept", "%", 100 * result.kept / count)
        if result.kept == count:
            figures.add(side, f"{what}: written of stored", "x", result.written / result.stored)
        watched = (await store_messages(side, folder(), writers=writers, each=each, watch=True)).stalls
        if watched is not None:
            figures.add(side, f"{what}: longest stall", "ms", watched.longest_ms)
            figures.add(side, f"{what}: longest stall on the wall", "ms", watched.longest_wall_ms)
        if side == "ctxkit":
            redacted = await store_messages(side, folder(), writers=writers, each=each, redact=True)
            figures.add(side, f"{what}, redacted", "messages/s", count / redacted.seconds)
    for writers, each in ((1, EDGE),) if side == "stock" else ((1, MESSAGES), (64, EACH_OF_64)):
        long = await store_messages(side, folder(), writers=writers, each=each, before=LONG)
        figures.add(side, f"{_writers(writers)}{IN_LONG}", "messages/s", writers * each / long.seconds)


def _writers(count: int) -> str:
    return "1 writer" if count == 1 else f"{count} writers"


def bare_disk(folder: Path, figures: Figures) -> None:
    """Measure how often a second the disk takes 2 KB durably, without anything round it: nobody alone can be faster."""
    folder.mkdir()
    data = b"x" * (MESSAGE_CHARS + 300)  # with what a message's JSON has beside its text
    descriptor = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        started = time.perf_counter()
        for _ in range(MESSAGES):
            os.write(descriptor, data)
            os.fdatasync(descriptor)
        figures.add("ctxkit", "the disk alone, write and sync", "calls/s", MESSAGES / (time.perf_counter() - started))
    finally:
        os.close(descriptor)


async def idle_stall(figures: Figures) -> None:
    """Measure how long the event loop waits for its turn where nobody does anything: the machine's own share."""
    async with watched_loop() as stalls:
        await asyncio.sleep(1)
    figures.add("ctxkit", "nothing stored: longest stall", "ms", stalls.longest_ms)
    figures.add("ctxkit", "nothing stored: longest stall on the wall", "ms", stalls.longest_wall_ms)


async def big_result(side: Side, folder: Path, figures: Figures, *, size: int, options: Sequence[str]) -> None:
    """Measure what one huge tool result costs, in a process of its own."""
    command = (sys.executable, "-m", "benchmarks._big_result", side, str(size), str(folder), *options)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await child.communicate()
    if child.returncode:
        msg = f"{' '.join(command)} ended with {child.returncode}"
        raise RuntimeError(msg)
    cost: dict[str, Any] = json.loads(told)
    what = " ".join([f"result of {size // 1_000_000:,} MB", *options])
    figures.add(side, f"{what}: memory", "MiB", cost["growth_mib"])
    figures.add(side, f"{what}: time", "s", cost["seconds"])
    figures.add(side, f"{what}: stored", "MB", cost["stored"] / 1e6)


async def measure(*, runs: int, result_bytes: int, big_runs: int) -> Figures:
    """Return the figures of all runs, the sides by turns."""
    figures = Figures()
    for run in range(runs):
        await idle_stall(figures)
        with tempfile.TemporaryDirectory(prefix="r6-") as root:
            bare_disk(Path(root, "bare"), figures)
        for side in SIDES if run % 2 else reversed(SIDES):
            with tempfile.TemporaryDirectory(prefix="r6-") as root:
                await throughput(side, partial(_new_folder, Path(root)), figures)
            with tempfile.TemporaryDirectory(prefix="r6-") as root:
                await append_late(side, Path(root), figures)
            for options in RESULT_OPTIONS[side] if run < big_runs else ():
                with tempfile.TemporaryDirectory(prefix="r6-") as root:
                    await big_result(side, Path(root), figures, size=result_bytes, options=options)
    return figures


def _new_folder(root: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=root))


def show(figures: Figures, console: Console) -> None:
    """Print both sides beside each other."""
    table = Table(
        title=f"R6 the cost of durability, on {file_system(Path(tempfile.gettempdir()))}; medians, least and most"
    )
    for title in ("what", "unit", "stock", "ctxkit"):
        table.add_column(title, justify="left" if title == "what" else "right")
    cells: dict[tuple[str, str], dict[Side, str]] = {}
    for row in figures.rows():
        told = f"{row.figure:,.2f} ({min(row.runs):,.2f} to {max(row.runs):,.2f})"
        cells.setdefault((row.what, row.unit), {})[row.side] = told
    for (what, unit), sides in cells.items():
        table.add_row(what, unit, sides.get("stock", ""), sides.get("ctxkit", ""))
    console.print(table)


def targets(figures: Figures) -> list[Target]:
    """Return what was promised, and what came of it."""
    late = "append 600 at 131 MB"
    growth = figures.ratio(("ctxkit", late), ("ctxkit", "append 1"))
    beside = figures.ratio(("stock", late), ("ctxkit", late))
    faster = []
    for writers, least in ((1, 10), (64, 50)):
        for where in ("", IN_LONG):
            ratio = figures.ratio(("ctxkit", _writers(writers) + where), ("stock", _writers(1) + where))
            name = f"{_writers(writers)} beside stock's one{where or f', up to {MESSAGES:,} messages'}"
            faster.append(Target(name=name, wanted=f">= {least}x", measured=f"{ratio:.1f}x", met=ratio >= least))
    written = max(figures.of("ctxkit", f"{n}: written of stored") for n in ("1 writer", "64 writers"))
    stall = max(figures.of("ctxkit", f"{who}: longest stall") for who in ("1 writer", "64 writers"))
    idle = figures.of("ctxkit", "nothing stored: longest stall")
    memory = max(row.figure for row in figures.rows() if row.side == "ctxkit" and row.what.endswith(": memory"))
    return [
        Target(name="append 600 beside append 1", wanted="<= 1.5x", measured=f"{growth:.2f}x", met=growth <= 1.5),
        Target(name="stock's append 600 beside it", wanted=">= 50x", measured=f"{beside:.0f}x", met=beside >= 50),
        *faster,
        Target(name="written of stored", wanted="<= 1.05x", measured=f"{written:.3f}x", met=written <= 1.05),
        Target(name="longest stall", wanted="<= 5 ms", measured=f"{stall:.1f} ms (idle {idle:.1f})", met=stall <= 5),
        Target(name="memory of a huge result", wanted="< 64 MiB", measured=f"{memory:.1f} MiB", met=memory < 64),
    ]


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("R6: the cost of durability.").parse_args(arguments)
    if not tells_figures():
        return skip("R6", options=options, reason="this system does not tell what a process writes")
    quiet()
    runs = SHORT_RUNS if options.short else max(RUNS, options.seeds)
    figures = await measure(
        runs=runs,
        result_bytes=RESULT_BYTES // 4 if options.short else RESULT_BYTES,
        big_runs=1 if options.short else SHORT_RUNS,
    )
    console = Console()
    show(figures, console)
    rows = [{**asdict(row), "figure": row.figure} for row in figures.rows()]
    return conclude("R6", targets(figures), rows, options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
