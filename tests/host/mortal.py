"""A process of its own in which an agent works, saves its state after each turn, and may be killed at any moment.

Usage: `python mortal.py FOLDER TURNS`. It tells each moment, a file that is about to be written or a turn that is saved,
by a line on standard output, and goes on when it gets a line back: whoever reads it may kill it right there.
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from agentscope.agent import Agent, ReActConfig
from agentscope.message import ToolCallBlock, UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, ContextEvent, LocalWorkspace
from ctxkit.testing import ScriptedModel, call

CALLS = 3
"""Calls of the tool in each turn."""
WRITES = frozenset({"os.link", "os.rename", "os.remove"})


def request(turn: int) -> str:
    """Return what the user says in a turn."""
    return f"Turn {turn}: look up the three topics of request REQ-{turn:04d} and say what is missing."


def marks(turn: int, number: int) -> list[str]:
    """Return what stands at the beginning, in the middle and at the end of a result, and nowhere else."""
    return [f"MARK-{turn:04d}-{number}-{part}" for part in "abc"]


def look_up(turn: int, number: int) -> str:
    """Look up a topic.

    Args:
        turn (int): The turn.
        number (int): The topic.
    """
    first, middle, last = marks(turn, number)
    filler = "\n".join(f"line {i} of the report on topic {turn}/{number}" for i in range(20 if number else 120))
    return f"{first}\n{filler}\n{middle}\n{filler}\n{last}"


def moment(name: str) -> None:
    """Tell a moment and wait until it may pass."""
    os.write(1, f"{name}\n".encode())
    os.read(0, 1)


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """Make a moment of each change of a file."""
    if event in WRITES or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    ):
        moment(event)


def script(turn: int) -> Iterator[ToolCallBlock | str]:
    """Yield what the model says in a turn, under ids that no other process uses."""
    for number in range(CALLS):
        yield call("look_up", turn=turn, number=number).model_copy(update={"id": f"call_{uuid.uuid4().hex}"})
    yield f"Turn {turn} is done."


def saved(folder: Path) -> tuple[int, AgentState]:
    """Return how many turns are done, and the state after them."""
    file = folder / "saved.json"
    if not file.exists():
        return 0, AgentState(session_id="s")
    content = json.loads(file.read_bytes())
    return content["turns"], AgentState.model_validate(content["state"])


def save(folder: Path, turns: int, state: AgentState) -> None:
    """Save in one step."""
    temporary = folder / "saved.json.new"
    temporary.write_text(json.dumps({"turns": turns, "state": state.model_dump(mode="json")}), encoding="utf-8")
    temporary.replace(folder / "saved.json")
    moment("saved")


async def work(folder: Path, turns: int) -> None:
    """Go through the turns that are not done, and save the state after each."""
    done, state = saved(folder)
    said = (step for turn in range(done, turns) for step in script(turn))
    agent = Agent(
        name="scribe",
        system_prompt="You look things up.",
        model=ScriptedModel(said, context_size=6000),
        toolkit=Toolkit(tools=[FunctionTool(look_up, is_read_only=True)]),
        context_config=ContextConfig(tool_result_limit=1000),
        react_config=ReActConfig(max_iters=100),
        offloader=LocalWorkspace(workdir=str(folder / "workspace")),
        middlewares=[CompressionMiddleware()],
        state=state,
    )
    sys.addaudithook(watch)
    for turn in range(done, turns):
        async for event in agent.reply_stream(UserMsg(name="user", content=request(turn))):
            if isinstance(event, ContextEvent) and event.name == "ctxkit.compression.done":
                moment("compressed")
        save(folder, turn + 1, agent.state)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
