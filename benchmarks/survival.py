"""B1: does a session survive its content? A provider enforces the real limit; the agent pages through one kind of content.

    python -m benchmarks.survival [--short] [--json FILE]

Eight kinds of content, results of about 3,000 and of 12,000 characters by turns, a window of 32,768 tokens, and two
tokenizers: cl100k, and o200k, which is not the one that ctxkit counts with. Then the user writes two more messages.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk
from rich.console import Console
from rich.table import Table

from benchmarks._agents import SIDES, Side, make_agent, quiet
from benchmarks._report import Target, conclude, options_parser
from benchmarks.token_samples import sample
from ctxkit.testing import ScriptedModel, call

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from ctxkit.testing.tokenizers import TokenizerName

WINDOW = 32_768
STEPS = 90
SMALL_CHARS, LARGE_CHARS = 3000, 12_000
LARGE_EVERY = 5

KINDS: dict[str, Callable[[random.Random, int], str]] = {
    "English prose": lambda rnd, chars: sample("prose", rnd, chars),
    "Python code": lambda rnd, chars: sample("code", rnd, chars),
    "JSON": lambda rnd, chars: json.dumps(
        [{"id": rnd.getrandbits(64), "ratio": rnd.random(), "name": f"n{n}"} for n in range(chars // 65)]
    ),
    "access log": lambda rnd, chars: sample("access log", rnd, chars),
    "base64": lambda rnd, chars: base64.b64encode(rnd.randbytes(chars * 3 // 4)).decode(),
    "CSV of floats": lambda rnd, chars: sample("csv", rnd, chars),
    "Chinese prose": lambda rnd, chars: sample("chinese", rnd, chars),
    "uuids": lambda rnd, chars: "\n".join(str(uuid.UUID(int=rnd.getrandbits(128))) for _ in range(chars // 37)),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One session of one side."""

    side: Side
    kind: str
    tokenizer: TokenizerName
    seed: int
    steps: int
    """Model calls that were answered."""
    died: str
    """The error that ended the reply; empty where none did."""
    later_messages_failed: int
    """Of two further user messages."""
    refused: int
    """Requests that the provider refused for their size."""
    compressions: int
    seconds: float

    @property
    def is_dead(self) -> bool:
        """Whether the session could not go on."""
        return bool(self.died) or self.later_messages_failed > 0


async def run(side: Side, kind: str, tokenizer: TokenizerName, *, seed: int) -> Row:
    """Return what became of one session."""
    started = time.monotonic()

    async def fetch(page: int) -> ToolChunk:
        """Fetch a page.

        Args:
            page (`int`): its number.
        """
        chars = LARGE_CHARS if page % LARGE_EVERY == 0 else SMALL_CHARS
        return ToolChunk(content=[TextBlock(text=KINDS[kind](random.Random(f"{seed} {page}"), chars))])

    model = ScriptedModel(
        [[call("fetch", page=page)] for page in range(1, STEPS + 1)],
        context_size=WINDOW,
        enforce=tokenizer,
        keep_messages=False,
    )
    with tempfile.TemporaryDirectory(prefix="b1-") as folder:
        tools = [FunctionTool(fetch, is_read_only=True)]
        agent = make_agent(side, model, tools, workdir=Path(folder), system_prompt="You are a helper.")
        died = await _say(agent, "Page through everything.")
        later = [await _say(agent, "Go on.") for _ in range(2)]
    compressions = len(model.summary_requests)
    return Row(
        side=side,
        kind=kind,
        tokenizer=tokenizer,
        seed=seed,
        steps=sum(not request.refused for request in model.chats),
        died=died,
        later_messages_failed=sum(map(bool, later)),
        refused=sum(request.refused for request in model.requests),
        compressions=compressions,
        seconds=round(time.monotonic() - started, 2),
    )


async def _say(agent: Agent, text: str) -> str:
    """Send a user message; return the error that it ended with, if any."""
    try:
        async for _ in agent.reply_stream(UserMsg(name="user", content=text)):
            pass
    except Exception as exc:  # noqa: BLE001 - what a session dies of is the result
        return f"{type(exc).__name__}: {exc}"[:200]
    return ""


def show(rows: Sequence[Row], console: Console) -> None:
    """Print both sides beside each other."""
    table = Table(title=f"B1 sessions of {STEPS} steps in a window of {WINDOW:,} tokens that the provider enforces")
    for title in ("content", "true tokenizer", "stock", "ctxkit", "ctxkit: summaries", "refused requests"):
        table.add_column(title)
    ours = [row for row in rows if row.side == "ctxkit"]
    stock = {(row.kind, row.tokenizer, row.seed): row for row in rows if row.side == "stock"}
    for row in ours:
        other = stock[row.kind, row.tokenizer, row.seed]
        table.add_row(row.kind, row.tokenizer, _fate(other), _fate(row), f"{row.compressions}", f"{row.refused}")
    console.print(table)


def _fate(row: Row) -> str:
    if not row.is_dead:
        return "lives"
    rest = "for good" if row.later_messages_failed == 2 else f"{row.later_messages_failed} of 2 later messages fail"
    return f"dies at step {row.steps + 1}, {rest}"


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the target is met, else 1."""
    options = options_parser("B1: does a session survive its content?").parse_args(arguments)
    quiet()
    tokenizers: tuple[TokenizerName, ...] = ("cl100k", "o200k")
    rows = [
        await run(side, kind, tokenizer, seed=seed)
        for seed in range(1 if options.short else options.seeds)
        for tokenizer in tokenizers
        for kind in KINDS
        for side in SIDES
    ]
    console = Console()
    show(rows, console)
    ours = [row for row in rows if row.side == "ctxkit"]
    dead = [row for row in ours if row.is_dead]
    few = [row for row in ours if row.compressions < 3]
    targets = [
        Target(name="ctxkit's sessions that died", wanted="0", measured=f"{len(dead)} of {len(ours)}", met=not dead),
        Target(
            name="sessions of fewer than 3 summaries",
            wanted="few",
            measured=f"{len(few)}",
            met=len(few) <= len(ours) // 4,
        ),
    ]
    return conclude("B1", targets, [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
