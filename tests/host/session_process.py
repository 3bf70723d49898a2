"""A process of its own in which an agent replies and its session is saved; it may be killed at any moment.

Usage: `python session_process.py STORE FOLDER TURNS [SESSION]`. It tells each reply that has ended, and each moment in
which a file is changed, by a line on standard output, and goes on when it gets a line back.
"""

import asyncio
import os
import sys
from pathlib import Path

from agentscope.agent import Agent, InjectionConfig
from agentscope.message import UserMsg
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, SessionLockedError, SessionMiddleware
from ctxkit.sessions import SessionLocks, SessionStore, SqliteSessionStore, TranscriptSessionStore
from ctxkit.testing import ScriptedModel

WRITES = frozenset({"os.link", "os.rename", "os.remove", "os.truncate"})


def moment(name: str) -> None:
    """Tell a moment and wait until it may pass."""
    os.write(1, f"{name}\n".encode())
    os.read(0, 1)


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """Make a moment of each change of a file, whichever thread makes it."""
    if event in WRITES or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    ):
        moment(event)


def store_of(kind: str, folder: Path) -> SessionStore:
    """Return the store that a test wants."""
    return SqliteSessionStore(folder / "sessions.db") if kind == "sqlite" else TranscriptSessionStore(folder)


async def work(kind: str, folder: Path, turns: int, session_id: str) -> None:
    """Go on with the session until it has so many turns."""
    store = store_of(kind, folder)
    async with SessionMiddleware(store, locks=SessionLocks(timeout_s=0.3)) as session:
        agent = Agent(
            name="scribe",
            system_prompt="You count.",
            model=ScriptedModel(after="Counted."),
            middlewares=[session, CompressionMiddleware()],
            injection_config=InjectionConfig(inject_runtime_state=False),
            state=AgentState(session_id=session_id),
        )
        try:
            await session.attach(agent)
        except SessionLockedError as exc:
            moment(f"locked: {exc}")
            return
        done = sum(message.role == "user" for message in agent.state.context)
        moment(f"attached: {done}")
        for turn in range(done, turns):
            async for event in agent.reply_stream(UserMsg(name="user", content=f"Turn {turn:03d}.")):
                if event.type == "MODEL_CALL_START":
                    moment(f"asked: {turn}")
                elif event.type == "REPLY_END":
                    moment(f"ended: {turn}")


if __name__ == "__main__":
    if os.environ.get("CTXKIT_TELL_WRITES"):
        sys.addaudithook(watch)
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or ["s-1"])[0]))
