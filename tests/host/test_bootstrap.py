"""Bootstrap files and the words on memory in a real agent's system prompt."""

from __future__ import annotations

import pytest
from agentscope.agent import ContextConfig as HostContextConfig

from ctxkit import (
    CompressionMiddleware,
    ContextConfig,
    MemoryConfig,
    MemoryMiddleware,
)
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    fetches,
    make_agent,
    user,
)

pytestmark = pytest.mark.asyncio


@pytest.mark.row("O18")
async def test_bootstrap_files_stand_in_the_system_prompt_within_their_caps(tmp_path):
    (tmp_path / "OPENCLAW.md").write_text("Be kind to crabs. " * 400, encoding="utf-8")
    (tmp_path / "MEMORY.md").write_text("The user is called Ada.", encoding="utf-8")
    names = ("OPENCLAW.md", "MISSING.md", "MEMORY.md")
    async with MemoryMiddleware(tmp_path, config=MemoryConfig(bootstrap_names=names)) as memory:
        agent = make_agent(ScriptedModel(["Hello."]), middlewares=[CompressionMiddleware(), memory])
        await agent.reply(user("Hi."))
    prompt = agent.model.chats[0].messages[0].get_text_content()
    assert prompt.startswith("You look things up.\n\n# Workspace files\n\n## OPENCLAW.md\n\nBe kind to crabs.")
    assert "OPENCLAW.md is cut here" in prompt
    assert "## MEMORY.md\n\nThe user is called Ada." in prompt
    assert "MISSING.md" not in prompt
    part = prompt.partition("## OPENCLAW.md\n\n")[2].partition("\n\n## MEMORY.md")[0]
    assert 4_900 < len(part) <= 5_000


@pytest.mark.row("O18")
async def test_the_prompt_is_the_same_bytes_in_all_requests_until_a_file_changes(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text("Version one.", encoding="utf-8")
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel([*fetches(3), "Done.", "Again."])
        agent = make_agent(model, middlewares=[CompressionMiddleware(), memory])
        await agent.reply(user("Fetch three."))
        prompts = [request.messages[0].get_text_content() for request in model.chats]
        assert len(set(prompts)) == 1
        path.write_text("Version two is longer.", encoding="utf-8")
        await agent.reply(user("Again."))
    assert model.chats[-1].messages[0].get_text_content() == prompts[0].replace(
        "Version one.", "Version two is longer."
    )


@pytest.mark.row("O18")
async def test_hooks_add_context_before_the_session_starts(tmp_path):
    config = MemoryConfig(bootstrap_hooks=[lambda about: {**about.files, "TODAY.md": f"You serve {about.agent}."}])
    async with MemoryMiddleware(tmp_path, config=config) as memory:
        agent = make_agent(ScriptedModel(["Hello."]), middlewares=[CompressionMiddleware(), memory])
        await agent.reply(user("Hi."))
    assert "## TODAY.md\n\nYou serve scribe." in agent.model.chats[0].messages[0].get_text_content()


@pytest.mark.row("O19")
async def test_the_prompt_says_how_to_recall_from_memory_where_the_tool_is_there(tmp_path):
    for wanted in (True, False):
        async with MemoryMiddleware(tmp_path, config=MemoryConfig(search_tool=wanted)) as memory:
            agent = make_agent(ScriptedModel(["Hello."]), middlewares=[CompressionMiddleware(), memory])
            await agent.reply(user("Hi."))
        assert ("# Memory\n" in agent.model.chats[0].messages[0].get_text_content()) == wanted
        assert ("search_memory" in str(agent.model.chats[0].tools)) == wanted


@pytest.mark.row("O18")
async def test_profile_openclaw_has_its_own_bootstrap_file_and_caps(tmp_path):
    (tmp_path / "OPENCLAW.md").write_text("c" * 6_000, encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text("not this one", encoding="utf-8")
    async with MemoryMiddleware(tmp_path) as memory:
        config = ContextConfig.profile("openclaw")
        model = ScriptedModel(["Hello."], context_size=200_000)
        agent = make_agent(model, config=config, middlewares=[CompressionMiddleware(), memory])
        await agent.reply(user("Hi."))
    prompt = agent.model.chats[0].messages[0].get_text_content()
    assert prompt.count("c" * 4_000) == 1
    assert prompt.partition("## OPENCLAW.md\n\n")[2].partition("\n\n# Memory")[0].startswith("c" * 4_000)
    assert "not this one" not in prompt


async def test_beside_no_compression_middleware_it_searches_and_fills_the_prompt(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    async with MemoryMiddleware(tmp_path) as memory:
        agent = make_agent(ScriptedModel([call("search_memory", query="x"), "Hello."]), middlewares=[memory])
        await agent.reply(user("Hi."))
    assert "Be brief." in agent.model.chats[0].messages[0].get_text_content()
    assert "Nothing in memory" in str(agent.state.context[-1].content)


async def test_with_the_hosts_own_config_files_are_read_once_too(tmp_path):
    asked: list[str] = []
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel([*fetches(2), "Done."])
        agent = make_agent(model, config=HostContextConfig(), middlewares=[CompressionMiddleware(), memory])
        bootstrap = await memory._memories.bootstrap_of(agent)
        read = bootstrap._read
        bootstrap._read = lambda signature: asked.append("read") or read(signature)
        await agent.reply(user("Fetch two."))
        assert await memory._memories.bootstrap_of(agent) is bootstrap
    assert asked == ["read"]
