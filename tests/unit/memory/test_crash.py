"""A process that is killed in the middle of any write leaves an entry that the next one writes once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxkit.offload import FileStore
from tests.unit.memory.fakes import GOOD, leaving, memory, writer

MORTAL = Path(__file__).with_name("mortal.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(MORTAL.parents[3]), *sys.path])}
MOST = 200


async def go_on(folder: Path) -> tuple[list[str], list[str]]:
    """Do what the next process does; return what was unfinished then, and the ids that a search finds."""
    store = FileStore(folder)
    of = memory(store, directory=str(folder))
    await of.leave(leaving())
    unfinished = await of.unfinished("s1")
    for identifier in unfinished:
        await of.write(identifier, writer(GOOD))
    found = [hit.entry.id for hit in await of.search("parser")]
    await store.aclose()
    return unfinished, found


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")
def test_a_process_killed_in_any_write_or_sync_leaves_one_entry_in_the_end(tmp_path):
    for number in range(1, MOST):
        folder = tmp_path / str(number)
        command = [sys.executable, str(MORTAL), str(folder), str(number)]
        code = subprocess.run(command, env=ENVIRONMENT, check=False, timeout=60).returncode
        assert code in {0, -9}
        unfinished, found = asyncio.run(go_on(folder))
        text = (folder / "memory" / "2025-11-22.md").read_text(encoding="utf-8")
        assert text.count("- The parser was fixed.") == 1, number
        assert text.count("ctxkit:entry plan-1") == 1, number
        assert found == ["plan-1"], number
        if code == 0:
            assert unfinished == []
            assert number > 10
            return
    pytest.fail(f"it made more than {MOST} writes")
