"""The README's first lines do what they say."""

import asyncio
import re
from pathlib import Path

import pytest
from agentscope.message import UserMsg

from ctxkit.testing import ScriptedModel

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.may_block("the host's workspace reads files on the event loop")
def test_the_agent_of_the_readme_is_built_as_written_and_replies(tmp_path, monkeypatch):
    [block] = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, str(README), "exec"), names)

    model = ScriptedModel(["Hello, I am careful."])
    agent = names["build"](model)
    reply = asyncio.run(agent.reply(UserMsg(name="user", content="Hello?")))

    assert reply.get_text_content() == "Hello, I am careful."
    assert "You are a careful programmer." in model.chats[0].messages[0].get_text_content()
    assert "search_context" in {tool["function"]["name"] for tool in model.chats[0].tools}
