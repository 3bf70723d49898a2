"""B11: which faults the verifier finds in summaries, and how often it marks what is right.

    python -m benchmarks.verifier [--recordings FILE] [--short] [--json FILE]

Faults are put by code into the summaries that real models wrote in recorded runs, and into summaries that code makes of
recorded runs: an id that must be kept is dropped, a digit flipped, a path invented, a stale status claimed. False alarms
are counted on the real summaries as they are, and, apart from those, on the last answers of recorded agents, which sum up
a whole run. The recordings are not part of the project: their path comes from `--recordings` or the environment's RECORDINGS.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentscope.message import AssistantMsg, SystemMsg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg
from rich.console import Console
from rich.table import Table

from benchmarks._faults import KINDS, Kind, inject
from benchmarks._report import Target, conclude, options_parser, skip
from ctxkit.ledger import Ledger
from ctxkit.schema import SUMMARY_FIELDS, summary_json_schema
from ctxkit.summary import Excerpt, extract_fields
from ctxkit.summary.verify import Sources, facts_to_keep, verify_fields

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.summary.verify import Fact, Verified

FOUND_WANTED = 0.95
ALARMS_WANTED = 0.05
ROOM_TOKENS = 500
"""A quarter of the default `SummaryConfig.max_tokens`."""
LEAST_TOKENS = 4_000
"""Shorter runs are never compressed."""
Origin = Literal["real", "last answer", "by code"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A summary and what it is of."""

    origin: Origin
    source: str
    id: str
    text: str
    sources: Sources
    facts: Sequence[Fact]

    async def verified(self, text: str) -> Verified:
        """Return what the check makes of a text in place of this summary."""
        fields = {**dict.fromkeys(SUMMARY_FIELDS, "-"), "current_state": text}
        return await verify_fields(fields, self.sources, self.facts, room_tokens=ROOM_TOKENS, count=count)


async def count(text: str) -> int:
    """Return about the tokens of a text."""
    return len(text) // 4


def messages_of(recorded: Sequence[Mapping[str, Any]]) -> list[Msg]:
    """Return a recording in OpenAI's chat format as messages of AgentScope."""
    names: dict[str, str] = {}
    made: list[Msg] = []
    for message in recorded:
        role, text = message["role"], message.get("content") or ""
        if role == "user":
            made.append(UserMsg(name="user", content=text))
        elif role == "system":
            made.append(SystemMsg(name="system", content=text))
        elif role == "tool":
            call_id = message.get("tool_call_id") or ""
            name = message.get("name") or names.get(call_id, "tool")
            result = ToolResultBlock(id=call_id, name=name, output=[TextBlock(text=text)], state="success")
            made.append(AssistantMsg(name="agent", content=[result]))
        else:
            calls = [each["function"] | {"id": each["id"]} for each in message.get("tool_calls") or []]
            names.update((each["id"], each["name"]) for each in calls)
            blocks = [ToolCallBlock(id=each["id"], name=each["name"], input=each["arguments"]) for each in calls]
            made.append(AssistantMsg(name="agent", content=[*([TextBlock(text=text)] if text else []), *blocks]))
    return made


async def case_of(run: Mapping[str, Any], stop: int, origin: Origin, text: str | None) -> Case:
    """Return the case of a run's messages up to one; without a text, code makes the summary."""
    messages = messages_of(run["messages"][:stop])
    sources = await Sources.of(messages, ledger=Ledger())
    if text is None:
        excerpt = await Excerpt.of(messages, ledger=Ledger())
        fields = await extract_fields(excerpt, summary_json_schema(), max_tokens=2000, count=count)
        text = "\n".join(map(str, fields.values()))
    facts = facts_to_keep(messages, sources.ledger)
    return Case(origin=origin, source=run["source"], id=run["id"], text=text, sources=sources, facts=facts)


def runs_of(path: Path, *, per_source: int) -> Iterator[Mapping[str, Any]]:
    """Yield every run with a real summary, and of each source so many more of those that are long enough."""
    taken: Counter[str] = Counter()
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if run.get("marks") or (run["tokens"] >= LEAST_TOKENS and taken[run["source"]] < per_source):
                taken[run["source"]] += 1
                yield run


async def cases_of(run: Mapping[str, Any]) -> list[Case]:
    """Return what a run has: its real summaries, its last answer where a model wrote one, and a summary by code."""
    messages = run["messages"]
    cases = [await case_of(run, mark["index"], "real", mark["summary"]) for mark in run.get("marks") or []]
    last = messages[-1]
    if run["kind"] == "recorded" and last["role"] == "assistant" and not last.get("tool_calls") and last.get("content"):
        cases.append(await case_of(run, len(messages) - 1, "last answer", last["content"]))
    if not run.get("marks"):
        cases.append(await case_of(run, len(messages) * 3 // 4, "by code", None))
    return cases


class Score:
    """What was found and what was marked for nothing.

    Args:
        seeds: Faults of each kind in each summary.
    """

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        self.found: dict[tuple[Origin, Kind], list[bool]] = defaultdict(list)
        self.missed: list[dict[str, str]] = []
        self.claims: Counter[Origin] = Counter()
        self.alarms: dict[Origin, list[str]] = defaultdict(list)
        self.summaries: Counter[Origin] = Counter()
        self.alarmed: Counter[Origin] = Counter()

    async def take(self, case: Case) -> None:
        """Check a summary as it is, and with faults in it."""
        verified = await case.verified(case.text)
        wrong = [*verified.unverified, *verified.corrected, *verified.reported, *verified.problems]
        self.summaries[case.origin] += 1
        self.alarmed[case.origin] += bool(wrong)
        self.claims[case.origin] += verified.claims
        self.alarms[case.origin] += wrong
        if case.origin == "last answer":
            return
        for kind in KINDS:
            for seed in range(self.seeds * (10 if case.origin == "real" else 1)):
                rnd = random.Random(f"{case.source} {case.id} {kind} {seed}")
                fault = inject(kind, case.text, rnd, ledger=case.sources.ledger, facts=case.facts)
                if fault is not None:
                    is_found = fault.is_found(await case.verified(fault.text))
                    self.found[case.origin, kind].append(is_found)
                    if not is_found:
                        self.missed.append({"kind": kind, "source": case.source, "id": case.id, "wrong": fault.wrong})

    def share(self, kind: Kind | None = None, origin: Origin | None = None) -> tuple[int, int]:
        """Return how many faults were found and how many there were."""
        hits = [hit for (o, k), each in self.found.items() if kind in {None, k} and origin in {None, o} for hit in each]
        return sum(hits), len(hits)

    def rows(self) -> list[dict[str, Any]]:
        """Return the figures, plain."""
        faults = [
            {"origin": origin, "fault": kind, "found": sum(hits), "injected": len(hits)}
            for (origin, kind), hits in sorted(self.found.items())
        ]
        alarms = [
            {
                "origin": origin,
                "summaries": self.summaries[origin],
                "summaries with an alarm": self.alarmed[origin],
                "claims": self.claims[origin],
                "alarms": len(self.alarms[origin]),
                "examples": self.alarms[origin][:8],
            }
            for origin in sorted(self.summaries)
        ]
        return [*faults, *alarms, *self.missed[:40]]


def show(score: Score, console: Console) -> None:
    """Print the figures."""
    table = Table(title="B11 faults found / injected")
    for title in ("fault", "in real summaries", "in summaries by code"):
        table.add_column(title)
    for kind in KINDS:
        real, made = score.share(kind, "real"), score.share(kind, "by code")
        table.add_row(kind, f"{real[0]} / {real[1]}", f"{made[0]} / {made[1]}")
    console.print(table)
    table = Table(title="B11 false alarms")
    for title in ("summaries", "how many", "with an alarm", "claims", "alarms"):
        table.add_column(title)
    for origin in sorted(score.summaries):
        alarms = str(len(score.alarms[origin]))
        table.add_row(
            origin, str(score.summaries[origin]), str(score.alarmed[origin]), str(score.claims[origin]), alarms
        )
    console.print(table)


def targets(score: Score) -> list[Target]:
    """Return what was promised, and what came of it."""
    made = []
    for kind in KINDS:
        found, injected = score.share(kind)
        met = injected > 0 and found >= FOUND_WANTED * injected
        measured = f"{found / max(injected, 1):.3f} of {injected}"
        made.append(Target(name=kind, wanted=f">= {FOUND_WANTED}", measured=measured, met=met))
    alarms, claims = len(score.alarms["real"]), score.claims["real"]
    alarmed, summaries = score.alarmed["real"], score.summaries["real"]
    measured = f"{alarms} of {claims} claims, {alarmed} of {summaries} summaries"
    met = claims > 0 and alarms <= ALARMS_WANTED * claims and alarmed <= ALARMS_WANTED * summaries
    made.append(Target(name="false alarms in real summaries", wanted=f"<= {ALARMS_WANTED}", measured=measured, met=met))
    return made


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    parser = options_parser("B11: which faults the verifier finds.")
    parser.add_argument("--recordings", default=os.environ.get("RECORDINGS"), help="xz-compressed JSON lines")
    options = parser.parse_args(arguments)
    console = Console()
    if not options.recordings or not os.path.exists(options.recordings):  # noqa: ASYNC240, PTH110 - nothing else runs here
        reason = f"no recordings at {options.recordings!r}; give --recordings or set RECORDINGS"
        console.print(f"B11 skipped: {reason}", highlight=False)
        return skip("B11", options=options, reason=reason)
    score = Score(1 if options.short else options.seeds)
    for run in runs_of(Path(options.recordings), per_source=3 if options.short else 30):
        for case in await cases_of(run):
            await score.take(case)
    show(score, console)
    return conclude("B11", targets(score), score.rows(), options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
