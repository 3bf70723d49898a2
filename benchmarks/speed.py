"""B3: the time that a compression and a check take, ctxkit's hook beside AgentScope's own, and how long they hold the loop.

    python -m benchmarks.speed [--short] [--json FILE]

The model answers summaries at once, so that what is measured is the work of the hook. ctxkit's memo is warm: what stands
in the context was weighed and scanned when it came in, by the checks before earlier steps. A cold memo, as after a
restart, and the time for storing are reported apart. Times are the least of several runs, and of the processor: the
machine may be busy with something else. Stalls are of the event loop's thread, the garbage collector's work included.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agentscope.agent import Agent, ContextConfig, InjectionConfig
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import AssistantMsg, Msg, TextBlock, ToolCallBlock, ToolResultBlock, ToolResultState, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.tool import FunctionTool, ToolChunk, Toolkit
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

import ctxkit
from benchmarks._agents import SIDES, Side, quiet
from benchmarks._report import Target, conclude, options_parser
from benchmarks.token_samples import sample
from ctxkit.ledger import facts, identifiers
from ctxkit.testing import plain_summary
from ctxkit.testing.scripted import STRUCTURED_TOOL, ScriptedCredential
from ctxkit.tokens import count

Shape = Literal["messages", "one reply"]

SIZES = (100, 500, 2000, 8000)
BLOCK_CHARS = 800
"""About 200 tokens."""
FULL_RATIO = 0.85
"""How full the window is when it is compressed."""
TOOLS = 20
KINDS = ("prose", "code", "json", "service log", "listing")


class InstantModel(ChatModelBase):
    """Answers every request for a summary at once, and looks at nothing of it."""

    class Parameters(BaseModel):
        """It has none."""

    type: Literal["instant"] = "instant"

    def __init__(self) -> None:
        super().__init__(
            credential=ScriptedCredential(),
            model="instant",
            parameters=self.Parameters(),
            stream=False,
            max_retries=0,
            context_size=10**9,
        )
        self.formatter = OpenAIChatFormatter()

    async def _call_api(self, *_: Any, tools: list[dict[str, Any]] | None = None, **__: Any) -> ChatResponse:
        text = json.dumps(plain_summary())
        names = {tool["function"]["name"] for tool in tools or []}
        is_host = STRUCTURED_TOOL in names
        block = ToolCallBlock(id="summary", name=STRUCTURED_TOOL, input=text) if is_host else TextBlock(text=text)
        usage = ChatUsage(input_tokens=1, output_tokens=1, time=0.0)
        return ChatResponse(content=[block], is_last=True, usage=usage)


@dataclass(kw_only=True)
class Row:
    """One context of one side; times in milliseconds."""

    side: Side
    shape: Shape
    size: int
    reserve_ratio: float
    compress_ms: float
    """Memo warm, nothing stored."""
    check_ms: float
    """After one new message."""
    stall_ms: float
    """Longest time that the event loop was held by the compression."""
    cold_ms: float | None = None
    """The first compression after a restart."""
    stored_ms: float | None = None
    """Memo warm, what leaves is stored durably; by the clock on the wall, for most of it is waiting for the disk."""


def make_context(shape: Shape, size: int, rnd: random.Random) -> list[Msg]:
    """Return a context of `size` messages, or of one reply with `size` blocks."""
    if shape == "messages":
        texts = (sample(rnd.choice(KINDS), rnd, BLOCK_CHARS) for _ in range(size))
        return [
            UserMsg(name="user", content=text) if number % 2 == 0 else AssistantMsg(name="friday", content=text)
            for number, text in enumerate(texts)
        ]
    blocks: list[Any] = []
    for number in range(size // 2):
        arguments = json.dumps({"a": f"/srv/app/src/module_{number}.py", "b": number})
        output = sample(rnd.choice(KINDS), rnd, 2 * BLOCK_CHARS - len(arguments))
        blocks.append(ToolCallBlock(id=f"call_{number}", name="tool_0", input=arguments))
        blocks.append(ToolResultBlock(id=f"call_{number}", name="tool_0", output=output, state=ToolResultState.SUCCESS))
    return [UserMsg(name="user", content="Go on."), AssistantMsg(name="friday", content=blocks)]


async def work(a: str, b: int = 1) -> ToolChunk:
    """A tool whose schema is as long as a real one's.

    Args:
        a (`str`): the path of a file in the workspace that is to be read and shown.
        b (`int`): the number of lines.
    """
    return ToolChunk(content=[TextBlock(text=f"{a} {b}")])


class Bench:
    """One agent with a context that is compressed again and again.

    Args:
        side: Whose work is measured.
        context: The context.
        reserve_ratio: Share of the window that stays.
        workdir: Where what leaves is stored; nowhere if `None`.
    """

    def __init__(
        self, side: Side, context: Sequence[Msg], *, reserve_ratio: float, workdir: Path | None = None
    ) -> None:
        self._context = context
        self._model = InstantModel()
        self._middleware = ctxkit.CompressionMiddleware()
        ours = side == "ctxkit"
        # What is measured is a compression in the hook itself, so none is prepared beside it.
        at_once = ctxkit.ContextConfig(reserve_ratio=reserve_ratio, summary=ctxkit.SummaryConfig(prepare=False))
        self.agent = Agent(
            name="friday",
            system_prompt=sample("prose", random.Random(7), 4000),
            model=self._model,
            toolkit=Toolkit(tools=[FunctionTool(work, name=f"tool_{n}") for n in range(TOOLS)]),
            context_config=at_once if ours else ContextConfig(reserve_ratio=reserve_ratio),
            offloader=None if workdir is None else ctxkit.LocalWorkspace(workdir=str(workdir)),
            middlewares=[self._middleware] if ours else [],
            injection_config=InjectionConfig(inject_runtime_state=False),
        )
        self.hook: Callable[[], Awaitable[None]] = self._ours if ours else self.agent.compress_context

    async def _ours(self) -> None:
        """Do what `on_reasoning` does before the model is called."""
        attached = await self._middleware._agents.attach(self.agent)
        if attached is not None:
            async for _ in self._middleware._make_room(attached, self.agent):
                pass

    async def tokens(self) -> int:
        """Return the tokens of the request as this side counts them."""
        self._reset()
        attached = await self._middleware._agents.attach(self.agent) if self.agent._reasoning_middlewares else None
        if attached is None:
            return await self._model.count_tokens(**await self.agent._prepare_model_input())
        return (await attached.engine.gauge.read(attached.engine.port)).tokens

    async def check_ms(self, runs: int) -> float:
        """Return the time of a check that finds nothing to do, after one new message each."""
        self._reset()
        await self.hook()
        times = []
        for number in range(runs):
            self.agent.state.context.append(UserMsg(name="user", content=f"And number {number}?"))
            times.append(await _timed(self.hook))
        return min(times)

    async def compress(self, window: int, runs: int) -> tuple[float, float]:
        """Return the time of one compression, all that stands there known from earlier checks, and its longest stall."""
        figures = [await self._once(window) for _ in range(runs)]
        return min(took for took, _ in figures), min(stall for _, stall in figures)

    async def cold_ms(self, window: int) -> float:
        """Return the time of the first compression after a restart; of a new object, for an old one knows its blocks."""
        self._reset()
        self._model.context_size = window
        count._memo.clear()
        facts._MEMO = facts._Memo(facts._MEMO_BYTES)  # anew: what was in the old one would still take its room
        identifiers._parts_of.cache_clear()
        gc.collect()
        return await _timed(self.hook)

    async def wall_ms(self, window: int) -> float:
        """Return the time of one compression by the clock on the wall, waiting for the disk included."""
        self._reset()
        await self.hook()
        self._model.context_size = window
        started = time.perf_counter()
        await self.hook()
        return (time.perf_counter() - started) * 1000

    async def _once(self, window: int) -> tuple[float, float]:
        self._reset()
        await self.hook()
        self._model.context_size = window
        figures = await _watched(self.hook)
        if not self.agent.state.summary:
            msg = "the context was not compressed: nothing was measured"
            raise RuntimeError(msg)
        return figures

    def _reset(self) -> None:
        self._model.context_size = 10**9
        self.agent.state.summary = ""
        self.agent.state.context = [
            message.model_copy(update={"content": [*message.content]}) for message in self._context
        ]
        self.agent.state.middle_context.clear()


async def _timed(hook: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time()
    await hook()
    return (time.process_time() - started) * 1000


async def _watched(hook: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return the time of a hook, and the longest time for which another task waited for its turn, in milliseconds."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest = max(longest, now - last)
            last = now

    gc.collect()
    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    try:
        took = await _timed(hook)
        await asyncio.sleep(0)
    finally:
        beating.cancel()
    return took, longest * 1000


async def measure(side: Side, shape: Shape, size: int, reserve_ratio: float, *, runs: int) -> Row:
    """Return the times of one side on one context."""
    context = make_context(shape, size, random.Random(size))
    bench = Bench(side, context, reserve_ratio=reserve_ratio)
    window = int(await bench.tokens() / FULL_RATIO)
    check_ms = await bench.check_ms(20)
    compress_ms, stall_ms = await bench.compress(window, runs)
    row = Row(
        side=side,
        shape=shape,
        size=size,
        reserve_ratio=reserve_ratio,
        compress_ms=compress_ms,
        check_ms=check_ms,
        stall_ms=stall_ms,
    )
    if side == "ctxkit":
        with tempfile.TemporaryDirectory(prefix="b3-") as folder:
            stored = Bench(side, context, reserve_ratio=reserve_ratio, workdir=Path(folder))
            row.stored_ms = await stored.wall_ms(window)
        row.cold_ms = await Bench(side, context, reserve_ratio=reserve_ratio).cold_ms(window)
    return row


def show(rows: Sequence[Row], console: Console) -> None:
    """Print both sides' times."""
    table = Table(title="B3 milliseconds of hook work, stock / ctxkit, and how many times faster")
    for title in (
        "shape",
        "size",
        "reserve",
        "compression",
        "check",
        "longest stall",
        "cold memo",
        "storing as well",
    ):
        table.add_column(title, justify="right")
    for stock, ours in pairs(rows):
        table.add_row(
            ours.shape,
            f"{ours.size:,}",
            f"{ours.reserve_ratio}",
            _beside(stock.compress_ms, ours.compress_ms),
            _beside(stock.check_ms, ours.check_ms),
            f"{stock.stall_ms:,.0f} / {ours.stall_ms:,.1f}",
            "" if ours.cold_ms is None else f"{ours.cold_ms:,.0f} ({stock.compress_ms / ours.cold_ms:.1f}x)",
            "" if ours.stored_ms is None else f"{ours.stored_ms:,.0f}",
        )
    console.print(table)


def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of the same context, stock first."""
    stock = {(row.shape, row.size, row.reserve_ratio): row for row in rows if row.side == "stock"}
    return [(stock[row.shape, row.size, row.reserve_ratio], row) for row in rows if row.side == "ctxkit"]


def _beside(stock: float, ours: float) -> str:
    return f"{stock:,.1f} / {ours:,.2f} ({stock / ours:.0f}x)"


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it."""
    both = pairs(rows)
    big = [(stock, ours) for stock, ours in both if ours.size == 8000 and ours.reserve_ratio == 0.4]
    checks = [stock.check_ms / ours.check_ms for stock, ours in both if ours.size >= 2000]
    faster = min(stock.compress_ms / ours.compress_ms for stock, ours in big)
    cold = min(stock.compress_ms / ours.cold_ms for stock, ours in big if ours.cold_ms)
    stall = max(ours.stall_ms for _, ours in both)
    growth = max(
        _growth([ours for _, ours in both], shape, ratio)
        for shape, ratio in {(o.shape, o.reserve_ratio) for _, o in both}
    )
    return [
        Target(name="compression at 8,000, reserve 0.4", wanted=">= 20x", measured=f"{faster:.0f}x", met=faster >= 20),
        Target(name="the same with a cold memo", wanted=">= 3x", measured=f"{cold:.1f}x", met=cold >= 3),
        Target(name="check from 2,000 on", wanted=">= 10x", measured=f"{min(checks):.0f}x", met=min(checks) >= 10),
        Target(name="time at 4 times the size", wanted="<= 5x", measured=f"{growth:.1f}x", met=growth <= 5),
        Target(name="longest stall", wanted="< 50 ms", measured=f"{stall:.1f} ms", met=stall < 50),
    ]


def _growth(rows: Sequence[Row], shape: Shape, reserve_ratio: float) -> float:
    """Return how the time grows from 2,000 to 8,000, which is 4 where it is linear; 0 where both were not measured."""
    times = {row.size: row.compress_ms for row in rows if (row.shape, row.reserve_ratio) == (shape, reserve_ratio)}
    return times[8000] / times[2000] if {2000, 8000} <= times.keys() else 0.0


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met, else 1."""
    options = options_parser("B3: time of the hook's work.").parse_args(arguments)
    quiet()
    sizes = (2000, 8000) if options.short else SIZES
    cases: list[tuple[Shape, int, float]] = [("messages", size, ratio) for ratio in (0.4, 0.1) for size in sizes]
    cases += [("one reply", size, 0.4) for size in ((8000,) if options.short else (2000, 8000))]
    if options.short:
        cases = [case for case in cases if case[2] == 0.4]
    rows = []
    for shape, size, ratio in cases:
        for side in SIDES:
            runs = 1 if side == "stock" and size > 2000 else 3
            rows.append(await measure(side, shape, size, ratio, runs=runs))
    console = Console()
    show(rows, console)
    return conclude("B3", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
