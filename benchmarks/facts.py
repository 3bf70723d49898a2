"""B2: what becomes of facts in a run of 120 tool results, each with one id, 5 constraints and 5 later asks.

    python -m benchmarks.facts [--short] [--json FILE]

Three cases: summaries as usual; a history that is larger than the window when it is first summarised; a model that
refuses every request for a summary. The scripted summary quotes nothing, which is the worst case. An id counts as kept
where it is in the request, or in the answer of one call of `search_context` that asks for its record in natural words.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentscope.message import Msg, TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk
from rich.console import Console
from rich.table import Table

from benchmarks._agents import SIDES, Side, make_agent, quiet
from benchmarks._recall_tool import search
from benchmarks._replay import request_texts
from benchmarks._report import Target, conclude, options_parser
from benchmarks.token_samples import sample
from ctxkit.testing import ScriptedModel, call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentscope.agent import Agent

    from ctxkit.testing.scripted import Step

Case = Literal["normal", "input larger than the window", "summary call fails"]
CASES: tuple[Case, ...] = ("normal", "input larger than the window", "summary call fails")

WINDOW = 32_768
AMPLE_WINDOW = 1_000_000
RESULTS = 120
TURNS = 6
RESULT_CHARS = 2400
CONSTRAINTS = (
    "Never write to the production database.",
    "Amounts must be given in euros with two decimals.",
    "Do not contact any customer directly.",
    "Keep the report under two pages.",
    "Only use the sandbox account 4711-test.",
)
ASKS = (
    "Please also note which orders were shipped late.",
    "Now compare the southern branches with the northern ones.",
    "I would like a list of refunds above 500 euros as well.",
    "Check whether any invoice was sent twice.",
    "Finally, tell me which supplier was involved most often.",
)
_FIRST = "Ada Bruno Chiara Dmitri Elena Farid Greta Hugo Ines Jonas Karin Luca".split()
_LAST = "Albers Baroni Castell Duarte Engel Fabre Gruber Hansen Ivanov Jansen".split()
_GOODS = "copper pipes,oak panels,ceramic tiles,steel cables,glass doors,wool carpets,brass valves,marble slabs".split(
    ","
)


class RefusedError(Exception):
    """What the provider raises for every summary in the third case; it will not pass, so nothing is tried again."""

    status_code = 400


@dataclass(frozen=True, kw_only=True)
class Record:
    """One tool result."""

    number: int
    id: str
    text: str
    query: str
    """What somebody would ask who wants the id and does not know it."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was left at the end of one run."""

    side: Side
    case: Case
    seed: int
    ids_live: int
    ids_kept: int
    """Live or, of ctxkit, one recall call away."""
    constraints_live: int
    asks_live: int
    ids_summarised: int
    """Seen by a summariser that answered."""
    constraints_summarised: int
    asks_summarised: int
    summaries: int
    died: str
    seconds: float


def make_records(rnd: random.Random) -> list[Record]:
    """Return the records; no two have the same customer."""
    people = [f"{first} {last}" for first in _FIRST for last in _LAST]
    rnd.shuffle(people)
    records = []
    for number, person in enumerate(people[:RESULTS]):
        goods = rnd.choice(_GOODS)
        name = f"ORD-{rnd.getrandbits(40):010x}"
        line = (
            f"Order {name} of customer {person}: {rnd.randint(2, 90)} crates of {goods}, {rnd.randint(80, 9000)} euros."
        )
        filler = sample("prose", rnd, RESULT_CHARS)
        middle = rnd.randrange(RESULT_CHARS // 4, RESULT_CHARS // 2)
        text = f"{filler[:middle]}\n{line}\n{filler[middle:]}"
        records.append(
            Record(number=number, id=name, text=text, query=f"order of customer {person}, crates of {goods}")
        )
    return records


class Run:
    """One run of one side.

    Args:
        side: Whose context management is measured.
        case: What happens to summaries.
        seed: Decides the records.
    """

    def __init__(self, side: Side, case: Case, *, seed: int) -> None:
        self._side, self._case, self._seed = side, case, seed
        self._records = make_records(random.Random(seed))
        self._model = ScriptedModel(
            self._script(),
            context_size=AMPLE_WINDOW if case == "input larger than the window" else WINDOW,
            summaries=RefusedError("no summaries here") if case == "summary call fails" else None,
            enforce="cl100k",
        )

    def _script(self) -> Iterator[Step]:
        each = RESULTS // TURNS
        for turn in range(TURNS):
            yield from ([call("get_order", number=number)] for number in range(turn * each, (turn + 1) * each))
            yield f"Part {turn + 1} is done."
        yield "All is done."

    async def row(self) -> Row:
        """Let the agent work, and look at what is left."""
        started = time.monotonic()

        async def get_order(number: int) -> ToolChunk:
            """Return the file of an order.

            Args:
                number (`int`): its number.
            """
            return ToolChunk(content=[TextBlock(text=self._records[number].text)])

        with tempfile.TemporaryDirectory(prefix="b2-") as folder:
            tools = [FunctionTool(get_order, is_read_only=True)]
            agent = make_agent(self._side, self._model, tools, workdir=Path(folder), system_prompt="You audit orders.")
            died = await self._work(agent)
            live = "\n".join(request_texts(self._model.chats[-1].messages))
            kept = sum([await self._is_kept(agent, record, live) for record in self._records])
        summarised = "\n".join(
            text for each in self._model.summary_requests if not each.refused for text in request_texts(each.messages)
        )
        if self._case == "summary call fails":
            summarised = ""
        return Row(
            side=self._side,
            case=self._case,
            seed=self._seed,
            ids_live=sum(record.id in live for record in self._records),
            ids_kept=kept,
            constraints_live=sum(text in live for text in CONSTRAINTS),
            asks_live=sum(text in live for text in ASKS),
            ids_summarised=sum(record.id in summarised for record in self._records),
            constraints_summarised=sum(text in summarised for text in CONSTRAINTS),
            asks_summarised=sum(text in summarised for text in ASKS),
            summaries=len(self._model.summary_requests),
            died=died,
            seconds=round(time.monotonic() - started, 2),
        )

    async def _work(self, agent: Agent) -> str:
        """Say everything that the user says; return the error that ended it, if any."""
        first = "Go through all 120 orders, one by one, and audit them.\n" + "\n".join(
            f"- {text}" for text in CONSTRAINTS
        )
        try:
            for turn, text in enumerate([first, *ASKS, "Thank you, finish now."]):
                if turn == TURNS:
                    self._model.context_size = WINDOW
                await _say(agent, UserMsg(name="user", content=text))
        except Exception as exc:  # noqa: BLE001 - what a run dies of is a result
            return f"{type(exc).__name__}: {exc}"[:200]
        return ""

    async def _is_kept(self, agent: Agent, record: Record, live: str) -> bool:
        if record.id in live:
            return True
        return self._side == "ctxkit" and record.id in await search(agent, record.query)


async def _say(agent: Agent, message: Msg) -> None:
    async for _ in agent.reply_stream(message):
        pass


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the rows."""
    table = Table(title=f"B2 ids / constraints / asks, of {RESULTS} / {len(CONSTRAINTS)} / {len(ASKS)}")
    for title in ("case", "side", "live at the end", "live or one call", "seen by a summariser", "summary calls"):
        table.add_column(title)
    for row in rows:
        table.add_row(
            row.case,
            row.side + (f" (died: {row.died})" if row.died else ""),
            f"{row.ids_live} / {row.constraints_live} / {row.asks_live}",
            f"{row.ids_kept}" if row.side == "ctxkit" else "no tool for it",
            f"{row.ids_summarised} / {row.constraints_summarised} / {row.asks_summarised}",
            f"{row.summaries}",
        )
    console.print(table)


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it."""
    made = []
    for case in CASES:
        ours = [row for row in rows if row.side == "ctxkit" and row.case == case]
        ids, said, asked = (min(getattr(r, n) for r in ours) for n in ("ids_kept", "constraints_live", "asks_live"))
        made.append(
            Target(
                name=case,
                wanted=f">= 118 / {len(CONSTRAINTS)} / {len(ASKS)}",
                measured=f"{ids} / {said} / {asked}",
                met=ids >= 118 and said == len(CONSTRAINTS) and asked == len(ASKS) and not any(r.died for r in ours),
            )
        )
    return made


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B2: what becomes of facts.").parse_args(arguments)
    quiet()
    seeds = range(1 if options.short else options.seeds)
    rows = [await Run(side, case, seed=seed).row() for seed in seeds for case in CASES for side in SIDES]
    console = Console()
    show(rows, console)
    return conclude("B2", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
