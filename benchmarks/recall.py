"""B5: future-reference recall on recorded runs, played through real replies.

Whenever the recorded assistant uses an identifier that it was shown long before: is it live in the request, one recall
call away, or lost? Answers take six seconds and summaries twenty, on a clock that jumps, as where the bill is measured:
how much of a run a summary that is made beside it lies behind depends on that.

    python -m benchmarks.recall [--recordings FILE] [--short] [--json FILE]

The recordings are not part of the project: their path comes from `--recordings` or the environment's RECORDINGS.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from rich.console import Console
from rich.table import Table

from benchmarks._agents import MemoryWorkspace, Side, make_agent, quiet
from benchmarks._bm25 import StoredFiles
from benchmarks._recall_tool import search
from benchmarks._recordings import Recording, body, identifiers, read_sample, words
from benchmarks._replay import Replay, broken_pairs, request_texts, said_by_environment
from benchmarks._report import Target, conclude, options_parser, skip
from benchmarks._virtual import run_without_waiting
from ctxkit import CompressionMiddleware
from ctxkit.offload import Recall
from ctxkit.tokens import Ruler, load_counter

if TYPE_CHECKING:
    from agentscope.agent import Agent
    from agentscope.message import Msg

RESULT_LIMIT_TOKENS = 3000
Setup = Literal["stock", "ctxkit", "ctxkit, earlier"]
SETUPS: dict[Setup, tuple[Side, dict[str, Any]]] = {
    "stock": ("stock", {}),
    "ctxkit": ("ctxkit", {}),
    "ctxkit, earlier": ("ctxkit", {"trigger_ratio": 0.62}),
}
"""Both sides as they are out of the box, and ctxkit set so that it takes no more input tokens than stock: what it keeps
beside the summary costs tokens in each request, and an earlier compression saves them."""
MACRO_EVENTS = 5
"""Runs with fewer events say little by themselves and are left out of the mean over runs."""
_READ_TOKENS = 100_000
_PIECE_CHARS = 200


@dataclass(kw_only=True)
class Row:
    """One run of one setup."""

    source: str
    id: str
    setup: Setup
    window: int
    events: int = 0
    live: int = 0
    one_call: int = 0
    """Live, or in the answer of one recall call."""
    requests: int = 0
    input_tokens: int = 0
    """Of all requests, those for summaries included."""
    summary_tokens: int = 0
    """Input of those for summaries alone."""
    summaries: int = 0
    over_window: int = 0
    broken_pairs: int = 0
    chars: int = 0
    readable_chars: int = 0
    seconds: float = 0.0
    died: str = ""
    """Why the run ended early; events after that count as lost."""


class Observer:
    """Looks at each request of one run, and asks for what is not in it."""

    def __init__(self, recording: Recording, row: Row, workdir: Path) -> None:
        self._recording = recording
        self._row = row
        self._files = StoredFiles(workdir)
        self.agent: Agent | None = None

    async def watch(self, index: int, messages: Sequence[Msg]) -> None:
        """Look at the request that a recorded message answers."""
        row = self._row
        row.broken_pairs += bool(broken_pairs(messages))
        wanted = self._recording.events.get(index, [])
        if not wanted:
            return
        live = frozenset().union(*(identifiers(text) for text in request_texts(messages)))
        row.events += len(wanted)
        said = body(self._recording.messages[index])
        for name in wanted:
            if name in live:
                row.live += 1
                row.one_call += 1
            else:
                row.one_call += name in await self._recalled(said, name)

    def lose_rest(self) -> None:
        """Count the events that the run did not come to, which are lost."""
        self._row.events = sum(map(len, self._recording.events.values()))

    async def _recalled(self, said: str, name: str) -> str:
        """Return what one recall call gives for the assistant's own words, the identifier left out."""
        known = list(dict.fromkeys([*words(said), *(x.lower() for x in identifiers(said))]))
        left_out = {name.lower(), *words(name)}
        query = [word for word in known if word not in left_out]
        if self._row.setup == "stock":
            return self._files.top(set(query))
        if self.agent is None:
            return ""
        return await search(self.agent, " ".join(query))

    async def readable(self, messages: Sequence[Msg]) -> None:
        """Count which characters of the recording are in the request or can be read from the store."""
        stored = self._files.text() if self._row.setup == "stock" else await stored_text(self.agent)
        there = "\n".join([*request_texts(messages), stored])
        for text in said_by_environment(self._recording.messages):
            self._row.chars += len(text)
            if text in there or text.strip() in there:
                self._row.readable_chars += len(text)
                continue
            pieces = (text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS))
            self._row.readable_chars += sum(len(piece) for piece in pieces if piece in there)


async def stored_text(agent: Agent | None) -> str:
    """Return everything of a session that `read_context` can give back, page by page."""
    if agent is None:
        return ""
    workspace = cast("MemoryWorkspace", agent.offloader)
    recall, ruler, session = Recall(workspace.store), Ruler(await load_counter()), agent.state.session_id
    names = [entry.name async for entry in workspace.store.list(session) if entry.name]
    pages = []
    for name in ("context", *names):
        offset = 0
        while True:
            page = await recall.read(session, name, offset=offset, limit_tokens=_READ_TOKENS, ruler=ruler)
            head, _, text = page.partition("\n")
            pages.append(text)
            offset += len(text)
            if "; next: " not in head or not text:
                break
        pages.append("\n")
    return "".join(pages)


async def run(recording: Recording, setup: Setup) -> Row:
    """Play one recording through one agent."""
    started = time.monotonic()
    side, config = SETUPS[setup]
    row = Row(source=recording.source, id=recording.id, setup=setup, window=recording.window)
    with tempfile.TemporaryDirectory(prefix="b5-") as folder:
        observer = Observer(recording, row, Path(folder))
        replay = Replay(recording, observer.watch)
        middleware = CompressionMiddleware()
        ours = {"offloader": MemoryWorkspace(workdir=folder), "middlewares": [middleware]} if side == "ctxkit" else {}
        agent = make_agent(
            side,
            replay.model,
            replay.tools,
            workdir=Path(folder),
            system_prompt=replay.system_prompt,
            tool_result_limit=RESULT_LIMIT_TOKENS,
            **config,
            **ours,
        )
        observer.agent = agent
        if side == "ctxkit":
            # Steps and summaries take their time by the loop's clock alone.
            (await middleware._agents.attach(agent)).engine.clock = asyncio.get_running_loop().time
        try:
            await replay.play(agent)
        except Exception as exc:  # noqa: BLE001 - a run that dies is a figure, too
            row.died = f"{type(exc).__name__}: {exc}"[:200]
            observer.lose_rest()
        await observer.readable((await agent._prepare_model_input())["messages"])
        summaries = replay.model.summary_requests
        row.requests = len(replay.model.chats)
        row.input_tokens = sum(request.input_tokens for request in replay.model.requests)
        row.summary_tokens = sum(request.input_tokens for request in summaries)
        row.summaries = len(summaries)
        row.over_window = sum(request.input_tokens > replay.model.context_size for request in replay.model.requests)
    row.seconds = round(time.monotonic() - started, 2)
    return row


@dataclass(frozen=True, kw_only=True)
class Total:
    """All runs of one setup."""

    setup: Setup
    runs: int
    events: int
    live_ratio: float
    """Over all events."""
    one_call_ratio: float
    macro_live_ratio: float
    """Mean over the runs with enough events."""
    macro_one_call_ratio: float
    input_tokens: int
    summary_tokens: int
    summaries: int
    readable_ratio: float
    over_window: int
    broken_pairs: int
    died: int

    @classmethod
    def of(cls, setup: Setup, rows: Sequence[Row]) -> Total:
        """Return the totals of one setup's rows."""
        mine = [row for row in rows if row.setup == setup]
        telling = [row for row in mine if row.events >= MACRO_EVENTS]

        def all_of(name: str) -> int:
            return sum(getattr(row, name) for row in mine)

        def mean(name: str) -> float:
            return float(sum(getattr(row, name) / row.events for row in telling)) / max(1, len(telling))

        events = max(1, all_of("events"))
        return cls(
            setup=setup,
            runs=len(mine),
            events=all_of("events"),
            live_ratio=all_of("live") / events,
            one_call_ratio=all_of("one_call") / events,
            macro_live_ratio=mean("live"),
            macro_one_call_ratio=mean("one_call"),
            input_tokens=all_of("input_tokens"),
            summary_tokens=all_of("summary_tokens"),
            summaries=all_of("summaries"),
            readable_ratio=all_of("readable_chars") / max(1, all_of("chars")),
            over_window=all_of("over_window"),
            broken_pairs=all_of("broken_pairs"),
            died=sum(bool(row.died) for row in mine),
        )


def show(totals: Sequence[Total], console: Console) -> None:
    """Print the totals side by side."""
    table = Table(title="B5 identifiers that the recorded agent uses again")
    table.add_column("")
    for total in totals:
        table.add_column(total.setup, justify="right")
    lines: dict[str, Callable[[Total], str]] = {
        "runs / events": lambda t: f"{t.runs} / {t.events}",
        "live, of all events": lambda t: f"{t.live_ratio:.1%}",
        "live or one recall call": lambda t: f"{t.one_call_ratio:.1%}",
        "live, mean of runs": lambda t: f"{t.macro_live_ratio:.1%}",
        "live or one call, mean of runs": lambda t: f"{t.macro_one_call_ratio:.1%}",
        "input tokens": lambda t: f"{t.input_tokens:,}",
        "of them for summaries": lambda t: f"{t.summary_tokens:,} ({t.summaries} calls)",
        "characters readable again": lambda t: f"{t.readable_ratio:.2%}",
        "requests over the window": lambda t: f"{t.over_window}",
        "requests with a broken pair": lambda t: f"{t.broken_pairs}",
        "runs that died": lambda t: f"{t.died}",
    }
    for name, cell in lines.items():
        table.add_row(name, *(cell(total) for total in totals))
    console.print(table)


def targets(stock: Total, defaults: Total, ours: Total) -> list[Target]:
    """Return what was promised at no more input tokens than stock's, and what came of it."""
    ratio = ours.input_tokens / max(1, stock.input_tokens)
    both = (defaults, ours)
    readable, one_call = min(each.readable_ratio for each in both), ours.one_call_ratio
    over, broken, died = (sum(getattr(each, name) for each in both) for name in ("over_window", "broken_pairs", "died"))
    return [
        Target(name="live", wanted=">= 82%", measured=f"{ours.live_ratio:.1%}", met=ours.live_ratio >= 0.82),
        Target(name="live or one call", wanted=">= 91%", measured=f"{one_call:.1%}", met=one_call >= 0.91),
        Target(name="input tokens beside stock", wanted="<= 1", measured=f"{ratio:.3f}", met=ratio <= 1),
        Target(name="readable again", wanted="100%", measured=f"{readable:.3%}", met=readable == 1),
        Target(name="over the window", wanted="0", measured=f"{over}", met=over == 0),
        Target(name="broken pairs", wanted="0", measured=f"{broken}", met=broken == 0),
        Target(name="runs that died", wanted="0", measured=f"{died}", met=died == 0),
    ]


def sample_of(options: argparse.Namespace) -> Iterator[Recording] | None:
    """Return the recordings to play, or None where there are none on this machine."""
    if options.recordings is None or not Path(options.recordings).is_file():
        return None
    per_source = options.per_source or (1 if options.short else 3)
    return read_sample(Path(options.recordings), per_source=per_source, only=options.sources)


async def measure_all(recordings: Iterable[Recording], console: Console) -> list[Row]:
    """Return what came of each recording in each setup, and print it as it comes."""
    rows: list[Row] = []
    for recording in recordings:
        for setup in SETUPS:
            row = await run(recording, setup)
            rows.append(row)
            console.print(
                f"{row.source} {row.id} {setup}: {row.live}/{row.one_call}/{row.events}, {row.input_tokens} tokens, "
                f"{row.summaries} summaries, {row.over_window} over, {row.seconds} s {row.died}",
                highlight=False,
            )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met or there are no recordings, else 1."""
    parser = options_parser("B5: future-reference recall on recorded runs.")
    parser.add_argument("--recordings", type=Path, default=os.environ.get("RECORDINGS"), help="the recordings")
    parser.add_argument("--sources", nargs="*", default=[], help="sources to take; all if none")
    parser.add_argument("--per-source", type=int, help="most runs of a source; 3, and 1 in the short form")
    options = parser.parse_args(arguments)
    console = Console()
    recordings = sample_of(options)
    if recordings is None:
        console.print(f"SKIPPED: no recordings at {options.recordings}; give --recordings FILE or set RECORDINGS")
        return skip("B5", options=options, reason="no recordings")
    quiet()
    rows = run_without_waiting(measure_all(recordings, console))
    totals = [Total.of(setup, rows) for setup in SETUPS]
    show(totals, console)
    return conclude(
        "B5",
        targets(*totals),
        [*(asdict(total) for total in totals), *(asdict(row) for row in rows)],
        options=options,
        console=console,
    )


if __name__ == "__main__":
    sys.exit(main())
