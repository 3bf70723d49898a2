"""A process of its own in which an agent works, saves its state after each turn, and may be killed at any moment.

Usage: `python mortal.py FOLDER TURNS`. It tells each moment (a file that is about to be written, a state that is saved, a
model that is asked for a summary) by a line on standard output, and goes on when it gets a line back: whoever reads it
may kill it right there.
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

from agentscope.agent import Agent, ReActConfig
from agentscope.message import ToolCallBlock, UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, ContextEvent, LocalWorkspace, Store, telemetry
from ctxkit.host import _sessions
from ctxkit.testing import ScriptedModel, call

CALLS = 3
"""Calls of the tool in each turn."""
SUMMARY = {
    "task_overview": "Look up three topics a turn.",
    "current_state": "Some are looked up.",
    "important_discoveries": "Each report has marks.",
    "next_steps": "Look up the rest.",
    "context_to_preserve": "The user wants to know what is missing.",
}
TOLD = {telemetry.DONE: "compressed", telemetry.PLAN_RESUMED: "resumed"}
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


def save(folder: Path, turns: int, state: AgentState, *, name: str = "saved") -> None:
    """Save in one step, and tell it by a name."""
    temporary = folder / "saved.json.new"
    temporary.write_text(json.dumps({"turns": turns, "state": state.model_dump(mode="json")}), encoding="utf-8")
    temporary.replace(folder / "saved.json")
    moment(name)


class Hold:
    """Saves the session before each swap; between the two stands a moment of its own."""

    def __init__(self, folder: Path, agent: Agent) -> None:
        self.folder = folder
        self.agent = ref(agent)
        self.turns = 0
        _sessions.register(agent, self)

    async def save(self) -> None:
        """Save the agent as it is before the swap."""
        agent = self.agent()
        if agent is not None:
            save(self.folder, self.turns, agent.state, name="about to swap")

    async def touch(self) -> None:
        """Nobody asks for signs of life."""

    def store_for(self, store: Store) -> Store:
        """Nobody else writes."""
        return store


def summary(_: object) -> dict[str, str]:
    """Answer a request for a summary."""
    moment("asked")
    return SUMMARY


async def work(folder: Path, turns: int) -> None:
    """Go through the turns that are not done, and save the state after each."""
    done, state = saved(folder)
    said = (step for turn in range(done, turns) for step in script(turn))
    agent = Agent(
        name="scribe",
        system_prompt="You look things up.",
        model=ScriptedModel(said, context_size=6000, summaries=summary),
        toolkit=Toolkit(tools=[FunctionTool(look_up, is_read_only=True)]),
        context_config=ContextConfig(tool_result_limit=1000),
        react_config=ReActConfig(max_iters=100),
        offloader=LocalWorkspace(workdir=str(folder / "workspace")),
        middlewares=[CompressionMiddleware()],
        state=state,
    )
    hold = Hold(folder, agent)
    sys.addaudithook(watch)
    for turn in range(done, turns):
        hold.turns = turn
        async for event in agent.reply_stream(UserMsg(name="user", content=request(turn))):
            if isinstance(event, ContextEvent) and event.name in TOLD:
                moment(TOLD[event.name])
        save(folder, turn + 1, agent.state)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
