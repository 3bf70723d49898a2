"""The soak of the engine alone, on an agent that is none: `python -m benchmarks._soak_port TURNS JSON`.

The agent is the one of the unit tests, so nothing of AgentScope runs, or is even imported.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._soak import (
    FACT,
    FACT_QUERY,
    FACT_TURN,
    SEARCH_EVERY,
    WINDOW,
    Pulse,
    said_by_tool,
    said_by_user,
    soak_options,
    unreadable,
    write_figures,
)
from ctxkit import FileStore, StoreOffloader
from ctxkit.engine import Engine
from ctxkit.offload import OffloadGuard
from ctxkit.plan import Reason
from ctxkit.port import Answer, Usage
from ctxkit.tokens import load_counter
from tests.unit.fakes import FakeCodec, FakePort, agent, call, result, settings, user
from tests.unit.summary.fakes import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

SEARCH_TOKENS = 1000


class InstantModel:
    """A model that answers every request for a summary at once."""

    key = "instant:model"
    context_size = WINDOW

    def __init__(self) -> None:
        self.summaries = 0

    async def call(self, *_: Any, **__: Any) -> Answer:
        """Answer."""
        self.summaries += 1
        return Answer(text=json.dumps(FIELDS), usage=Usage(input_tokens=100, output_tokens=10))

    async def structured(self, *_: Any, **__: Any) -> Answer:
        """Answer with the fields."""
        return Answer(content=FIELDS, usage=(await self.call()).usage)


async def soak(turns: int, path: Path) -> None:
    """Let the turns pass, and look what is left of them."""
    pulse, model, config = Pulse(turns), InstantModel(), settings()
    codec: Any = FakeCodec()  # it stands for the host's, as far as ctxkit reads it
    failures = failed_searches = 0

    async def emit(name: str, _: Mapping[str, Any]) -> None:
        nonlocal failures
        failures += name.endswith("failed")

    with tempfile.TemporaryDirectory(prefix="r7-") as folder:
        store = FileStore(folder)
        guard = OffloadGuard(StoreOffloader(store, codec), codec=codec, timeout_s=60)
        port: Any = FakePort(model=model)
        engine = Engine(port, codec, counter=await load_counter(), guard=guard)
        search_ms: list[float] = []

        async def search(query: str) -> str:
            started = time.perf_counter()
            if engine.recall is None:
                return ""
            answer = await engine.recall.search("session", query, limit_tokens=SEARCH_TOKENS, ruler=engine.ruler)
            search_ms.append((time.perf_counter() - started) * 1000)
            return answer

        for turn in range(1, turns + 1):
            with pulse.turn():
                port.context.append(user(said_by_user(turn)))
                port.context.append(agent(call(f"c{turn}", page=turn), result(f"c{turn}", said_by_tool(turn))))
                if (await engine.look(config)).is_due:
                    await engine.compress(config, reason=Reason.TRIGGER, emit=emit)
                    port.swaps.clear()
                port.context[-1].content.append(codec.text(f"Page {turn} is read."))
            if turn % SEARCH_EVERY == 0 and turn >= 2 * SEARCH_EVERY:
                old = turn - SEARCH_EVERY
                failed_searches += f"u{old}" not in await search(f"page {old}")
        missing = await unreadable(store, "session", [codec.dump(message) for message in port.context], turns)
        found = FACT in await search(FACT_QUERY)
        stored = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())  # noqa: ASYNC240 - the loop is done
        await store.aclose()
    write_figures(
        path,
        pulse,
        turns=turns,
        compressions=model.summaries,
        failures=failures,
        unreadable=len(missing),
        found=found,
        fact_turn=FACT_TURN,
        search_ms=[*search_ms[:1], *search_ms[-1:]],
        failed_searches=failed_searches,
        stored_mb=stored / 1e6,
    )


if __name__ == "__main__":
    options = soak_options()
    asyncio.run(soak(options.turns, options.json))
