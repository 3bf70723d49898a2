"""The soak of a real agent, which stores, recalls and saves its session: `python -m benchmarks._soak_agent TURNS JSON`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentscope.agent import Agent, InjectionConfig
from agentscope.message import Msg, TextBlock, ToolCallBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

import ctxkit
from benchmarks._agents import quiet
from benchmarks._recall_tool import search
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
from ctxkit.testing import ScriptedModel, call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxkit.testing.scripted import ScriptedRequest


class ForgetfulModel(ScriptedModel):
    """A scripted model that counts its requests instead of keeping them, and enforces the window."""

    def __init__(self, script: Iterator[str | ToolCallBlock]) -> None:
        super().__init__(script, context_size=WINDOW, enforce="cl100k", keep_messages=False)
        self.refused = 0
        self.summaries = 0

    async def _record(self, *args: Any) -> ScriptedRequest:
        request = await super()._record(*args)
        self.refused += request.refused
        self.summaries += request.kind == "summary"
        self.requests.clear()
        return request


async def fetch(page: int) -> ToolChunk:
    """Fetch a page.

    Args:
        page (`int`): its number.
    """
    return ToolChunk(content=[TextBlock(text=said_by_tool(page))])


def script(turns: int) -> Iterator[str | ToolCallBlock]:
    """Yield what the model says: a call and an answer a turn, and now and then a search for something old."""
    for turn in range(1, turns + 1):
        yield call("fetch", page=turn)
        if turn % SEARCH_EVERY == 0 and turn >= 2 * SEARCH_EVERY:
            yield call("search_context", query=f"page {turn - SEARCH_EVERY}")
        yield f"Page {turn} is read."


async def soak(turns: int, path: Path) -> None:
    """Let the turns pass, and look what is left of them."""
    pulse, model = Pulse(turns), ForgetfulModel(script(turns))
    with tempfile.TemporaryDirectory(prefix="r7-") as folder:
        workspace = ctxkit.LocalWorkspace(workdir=folder)
        sessions = ctxkit.SqliteSessionStore(Path(folder, "sessions.db"))
        async with ctxkit.SessionMiddleware(sessions) as session, ctxkit.CompressionMiddleware() as compression:
            agent = Agent(
                name="friday",
                system_prompt="You are a helper.",
                model=model,
                toolkit=Toolkit(tools=[FunctionTool(fetch, is_read_only=True)]),
                context_config=ctxkit.ContextConfig(),
                offloader=workspace,
                middlewares=[session, compression],
                injection_config=InjectionConfig(inject_runtime_state=False),
            )
            failures = 0
            for turn in range(1, turns + 1):
                with pulse.turn():
                    async for event in agent.reply_stream(UserMsg(name="user", content=said_by_user(turn))):
                        failures += str(getattr(event, "name", "")).endswith("failed")
            session_id = agent.state.session_id
            live = [message.model_dump_json() for message in agent.state.context]
            missing = await unreadable(workspace.store, session_id, live, turns)
            search_ms, found = [], False
            for query in (f"page {turns // 2}", FACT_QUERY):
                started = time.perf_counter()
                found = FACT in await search(agent, query)
                search_ms.append((time.perf_counter() - started) * 1000)
            saved = await sessions.load(session_id)
        await workspace.store.aclose()
        stored = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())  # noqa: ASYNC240 - the loop is done
    write_figures(
        path,
        pulse,
        turns=turns,
        compressions=model.summaries,
        refused=model.refused,
        failures=failures,
        unreadable=len(missing),
        found=found,
        fact_turn=FACT_TURN,
        search_ms=search_ms,
        is_saved=saved is not None and _last_text(saved.state) == f"Page {turns} is read.",
        stored_mb=stored / 1e6,
    )


def _last_text(state: Any) -> str:
    """Return the last text of a saved state's context."""
    context: Sequence[Msg] = [Msg.model_validate(message) for message in state["context"]]
    return [block.text for block in context[-1].content if block.type == "text"][-1]


if __name__ == "__main__":
    options = soak_options()
    quiet()
    asyncio.run(soak(options.turns, options.json))
