"""What a summary carries besides: failed calls, files, notes on what was large and on a split turn (row O10)."""

import pytest

from ctxkit.summary.render import FAILURES_TITLE
from ctxkit.summary.state import MOST_FAILURES
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import events_of, make_agent, memory_offloader, summary_text, user, words
from tests.host.summaries import GOOD, WINDOW, lowered

pytestmark = pytest.mark.asyncio


def read(path: str) -> str:
    """Read a file.

    Args:
        path (str): Where it is.
    """
    if "missing" in path:
        msg = f"no such file: {path} {words(200, seed=path)}"
        raise FileNotFoundError(msg)
    return words(8000 if "giant" in path else 150, seed=path)


def write(path: str) -> str:
    """Write a file.

    Args:
        path (str): Where it is.
    """
    return f"wrote {path}"


async def after(script, *, turns=1):
    model = ScriptedModel([*script, *["done"] * 9], context_size=WINDOW, summaries=GOOD, enforce="cl100k")
    agent = make_agent(
        model, config=lowered(tool_result_limit=20_000), tools=[read, write], offloader=memory_offloader()
    )
    for turn in range(turns):
        await events_of(agent.reply_stream(user(f"Sort out folder {turn}.")))
    await agent.compress_context()
    return summary_text(agent)


@pytest.mark.row("O10")
async def test_the_eight_newest_failures_stand_in_the_summary_cut_at_240_characters():
    failing = [call("read", path=f"missing-{n}.txt") for n in range(11)]
    text = await after([*failing, *(call("read", path=f"ok-{n}.txt") for n in range(40))])
    section = text.partition(FAILURES_TITLE)[2].partition("\n\n")[0].partition("\n# ")[0].strip().splitlines()
    assert len(section) <= MOST_FAILURES
    assert [n for n in range(11) if any(f"missing-{n}.txt" in line for line in section)] == list(range(3, 11))
    assert "missing-10.txt" in section[0]
    assert max(map(len, section)) <= 240 + len("- read: ")


@pytest.mark.row("O10")
async def test_files_read_and_files_written_are_told_apart():
    text = await after([call("write", path="out/a.txt"), *(call("read", path=f"in/{n}.txt") for n in range(40))])
    assert "Files created: out/a.txt" in text
    assert "in/0.txt" in text.partition("Files read: ")[2].partition("\n")[0]


@pytest.mark.row("O10")
async def test_what_was_most_of_a_part_and_a_split_turn_are_noted():
    text = await after([call("read", path="giant.txt"), *(call("read", path=f"ok-{n}.txt") for n in range(12))])
    assert "most of it is a result of read with " in text
    assert "its last turn goes on below" in text
