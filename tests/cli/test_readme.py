"""The README's code does what it says."""

import asyncio
import re
from pathlib import Path

import pytest
from agentscope.message import UserMsg

from ctxkit import ContextUnfitError
from ctxkit.testing import ScriptedModel

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Return what the README's code defines, run as one program in an empty folder."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    exec(compile("\n".join(blocks), str(README), "exec"), found)
    return found


@pytest.mark.may_block("the host's workspace reads files on the event loop")
def test_the_agent_of_the_readme_is_built_as_written_and_replies(names):
    model = ScriptedModel(["Hello, I am careful."])
    agent = names["build"](model)
    reply = asyncio.run(names["ask"](agent, UserMsg(name="user", content="Hello?")))

    assert reply.get_text_content() == "Hello, I am careful."
    assert "You are a careful programmer." in model.chats[0].messages[0].get_text_content()
    assert "search_context" in {tool["function"]["name"] for tool in model.chats[0].tools}


def test_a_message_that_cannot_fit_is_refused_with_the_biggest_parts_as_the_readme_says(names, capsys):
    agent = names["build"](ScriptedModel(["Never said."], context_size=200))

    with pytest.raises(ContextUnfitError):
        asyncio.run(names["ask"](agent, UserMsg(name="user", content="word " * 500)))

    assert capsys.readouterr().out.startswith("((")


@pytest.mark.may_block("the host's workspace reads files on the event loop")
def test_an_agent_is_steered_as_the_readme_says(names):
    async def talk():
        agent = names["build"](ScriptedModel(["A long answer. " * 200] * 6))
        for number in range(6):
            await agent.reply(UserMsg(name="user", content=f"Question {number}. " * 100))
        before = [message.model_dump() for message in agent.state.context]
        return before, agent, await names["steer"](agent)

    before, agent, (preview, receipt, undone) = asyncio.run(talk())

    assert (receipt.outcome, undone.outcome) == ("applied", "undone")
    assert receipt.tokens_after == preview.tokens_after < receipt.tokens_before
    after = [message.model_dump() for message in agent.state.context]
    assert [message["id"] for message in after[: len(before)]] == [message["id"] for message in before]
    assert "production database" in str(after[-1])


def test_the_readme_chooses_a_mode_and_a_price(names):
    assert (names["cheapest"].triggers.mode, names["cheapest"].cost.price.written) == ("cost", 1.25)
