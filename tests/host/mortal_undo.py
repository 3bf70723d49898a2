"""A process of its own that takes the newest compression of a saved agent back, and saves it.

Usage: `python mortal_undo.py FOLDER TURNS`. It tells its moments as `mortal.py` does, and may be killed in each of them.
"""

import asyncio
import sys
from pathlib import Path

from ctxkit import FileStore, HostCodec, Steering, StoreOffloader
from ctxkit.testing import ScriptedModel
from tests.host.agents import make_agent
from tests.host.mortal import Hold, save, saved, watch


async def work(folder: Path, turns: int) -> None:
    """Take the compression back and save the state."""
    _, state = saved(folder)
    offloader = StoreOffloader(FileStore(folder / "workspace"), HostCodec())
    agent = make_agent(ScriptedModel(context_size=16_000), offloader=offloader, state=state)
    steering = Steering.of(agent)
    hold = Hold(folder, agent)
    sys.addaudithook(watch)
    await steering.undo()
    assert hold.agent() is agent
    save(folder, turns, agent.state, name="done")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
