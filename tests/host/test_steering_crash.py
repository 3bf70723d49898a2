"""A process that is killed while it takes a compression back leaves an agent that is as before or as after, and says so."""

import asyncio
import json
import random
import shutil
from pathlib import Path

import pytest
from agentscope.state import AgentState

from ctxkit import ContextConfig, FileStore, HostCodec, LadderConfig, Steering, StoreOffloader
from ctxkit.testing import ScriptedModel
from tests.host import test_crash
from tests.host.agents import history, make_agent
from tests.host.test_steering import seen

PROGRAM = Path(__file__).with_name("mortal_undo.py")
DEATHS = 2
"""Moments at random, beside the two around the save."""

pytestmark = test_crash.pytestmark


def state_in(folder: Path) -> AgentState:
    return AgentState.model_validate(json.loads((folder / "saved.json").read_bytes())["state"])


async def compressed_in(folder: Path) -> tuple[object, object]:
    """Save an agent whose context was compressed; return what was seen in it before and after."""
    agent = make_agent(
        ScriptedModel(context_size=16_000),
        config=ContextConfig(ladder=LadderConfig(rungs=("summarize",))),
        offloader=StoreOffloader(FileStore(folder / "workspace"), HostCodec()),
    )
    agent.state.context.extend(history(8))
    before = seen(agent.state)
    await Steering.of(agent).compact()
    saved = {"turns": 1, "state": agent.state.model_dump(mode="json")}
    (folder / "saved.json").write_text(json.dumps(saved), encoding="utf-8")
    return before, seen(agent.state)


@pytest.mark.row("X12")
def test_an_undo_that_is_killed_at_any_moment_has_happened_or_not_and_a_retry_gives_what_was_before(tmp_path):
    start, whole = tmp_path / "start", tmp_path / "whole"
    start.mkdir()
    before, after = asyncio.run(compressed_in(start))
    assert before != after
    shutil.copytree(start, whole)
    moments = test_crash.live_for(whole, None, turns=2, program=PROGRAM)
    stored = moments.index(
        "about to swap"
    )  # the number of the moment before: "undone" is stored, and the state is not saved
    chosen = random.Random(1).sample(range(1, len(moments)), k=min(DEATHS, len(moments) - 1))
    outcomes = {}
    for death in sorted({*chosen, stored, stored + 1}):
        folder = tmp_path / str(death)
        shutil.copytree(start, folder)
        test_crash.live_for(folder, death, die_at_once=death != 1, turns=2, program=PROGRAM)
        outcomes[death] = asyncio.run(gone_on(state_in(folder), folder, before=before, after=after))
    assert set(outcomes.values()) == {"refused", "undone"}


async def gone_on(state: AgentState, folder: Path, *, before: object, after: object) -> str:
    """Check a state that was left by a process that was killed, take back what is left to be, and return what came of it."""
    handle = Steering(state, store=FileStore(folder / "workspace"))
    is_undone = seen(state) == before
    assert is_undone or seen(state) == after
    oldest = before[0][0]["id"]
    assert (await handle.explain(oldest)).where == ("context" if is_undone else "summary")
    undone = await handle.undo()
    assert undone.outcome == ("refused" if is_undone else "undone"), undone.why
    assert seen(state) == before
    assert (await handle.explain(oldest)).where == "context"
    return undone.outcome
