"""`LocalWorkspace` through the host: all of the host's own still works, and what is offloaded is durable."""

import base64
import json
import warnings
from pathlib import Path

import pytest
from agentscope.agent import Agent, ContextConfig
from agentscope.mcp import HttpMCPConfig, MCPClient
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMsg,
)
from agentscope.workspace import LocalWorkspace as HostWorkspace

from ctxkit.host import workspace as module
from ctxkit.host._codec import HostCodec
from ctxkit.host.workspace import LocalWorkspace
from ctxkit.offload import BLOB, FileStore, OffloadGuard, Recall, fsname, lines
from ctxkit.testing import ScriptedModel

PICTURE = base64.b64encode(b"\x89PNG" + bytes(range(200))).decode()
HOSTILE = ["../../x", "..", ".", "", "/etc/x", "a/b", "victim/.", "victim/", "a\x00b", "x" * 300, "CON", "A"]

# The host's tools and skills read files on the event loop.
pytestmark = pytest.mark.may_block("the host's workspace blocks; the store has its own tests")


@pytest.fixture
def guarded(monkeypatch):
    """Let the warning be given again."""
    monkeypatch.setattr(module, "_warned", {module._MISSING})


def picture() -> DataBlock:
    return DataBlock(source=Base64Source(data=PICTURE, media_type="image/png"), name="shot")


def conversation() -> list[Msg]:
    call = ToolCallBlock(id="call_1", name="Bash", input='{"command": "ls"}')
    result = ToolResultBlock(
        id="call_1", name="Bash", output=[TextBlock(text="a.py\ud83d"), picture()], state="success"
    )
    return [
        UserMsg(name="user", content=[TextBlock(text="Where is the parser?"), picture()]),
        AssistantMsg(
            name="bob",
            content=[
                ThinkingBlock(thinking="hm", signature="s"),
                call,
                result,
                HintBlock(hint=[TextBlock(text="look"), picture()]),
                TextBlock(text="In parser.py."),
            ],
        ),
    ]


def content_of(path: str) -> str:
    return Path(path).read_text()


def messages_in(log: str) -> list[Msg]:
    return [HostCodec().load(line) for line in content_of(log).splitlines()]


def skill_in(folder: Path) -> str:
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: says hello\n---\nSay hello.\n")
    return str(folder)


@pytest.mark.asyncio
@pytest.mark.row("A9")
@pytest.mark.parametrize("initialized", [True, False])
async def test_the_layout_stands_with_and_without_initialize(tmp_path, guarded, initialized):
    workspace = LocalWorkspace(workdir=str(tmp_path / "w"))
    if initialized:
        await workspace.initialize()
    log = await workspace.offload_context("s1", conversation())
    result = await workspace.offload_tool_result("s1", ToolResultBlock(id="call_1", name="Bash", output="whole"))
    root = tmp_path / "w"
    assert log == str(root / "sessions/s1/context.jsonl")
    assert result == str(root / "sessions/s1/tool_result-call_1.txt")
    assert content_of(result) == "whole"
    assert [path.suffix for path in (root / "data").iterdir()] == [".png"]
    assert isinstance(workspace.store, FileStore)
    await workspace.close()


@pytest.mark.asyncio
@pytest.mark.row("A8")
async def test_records_are_the_hosts_messages_with_media_by_url(tmp_path, guarded):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    sent = conversation()
    sent[1].content[2].output[0].text = "a.py"
    log = await workspace.offload_context("s1", sent, reason="more arguments are accepted")
    read = [Msg.model_validate_json(line) for line in content_of(log).splitlines()]
    urls = [
        str(block.source.url)
        for block in [read[0].content[1], read[1].content[2].output[1], read[1].content[3].hint[1]]
    ]
    [name] = [path.name for path in (tmp_path / "data").iterdir()]
    assert urls == [f"workspace:///data/{name}"] * 3
    for one, other in zip(sent, read, strict=True):
        ours, theirs = one.model_dump(), other.model_dump()
        assert _without_sources(ours) == _without_sources(theirs)


def _without_sources(dumped: object) -> object:
    if isinstance(dumped, dict):
        return {key: _without_sources(value) for key, value in dumped.items() if key != "source"}
    return [_without_sources(value) for value in dumped] if isinstance(dumped, list) else dumped


@pytest.mark.asyncio
async def test_a_lone_surrogate_does_not_fail_the_offload(tmp_path, guarded):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    log = await workspace.offload_context("s1", conversation())
    assert messages_in(log)[1].content[2].output[0].text == "a.py\ud83d"
    await workspace.offload_tool_result("s1", ToolResultBlock(id="c", name="x", output="\ud800"))


@pytest.mark.asyncio
async def test_a_file_that_the_host_wrote_is_continued(tmp_path, guarded):
    message = UserMsg(name="user", content="from before")
    log = await HostWorkspace(workdir=str(tmp_path)).offload_context("s1", [message])
    workspace = LocalWorkspace(workdir=str(tmp_path))
    assert await workspace.offload_context("s1", conversation()) == log
    assert messages_in(log)[0] == message
    assert [entry.sequence async for entry in workspace.store.list("s1")] == [1, 2, 3]


@pytest.mark.asyncio
@pytest.mark.row("A9")
async def test_skills_tools_instructions_and_mcp_keep_working(tmp_path):
    skill = skill_in(tmp_path / "greet")
    declared = MCPClient(name="remote", is_stateful=False, mcp_config=HttpMCPConfig(url="http://127.0.0.1:9/mcp"))
    workspace = LocalWorkspace(
        workdir=str(tmp_path / "w"), skill_paths=[skill], default_mcps=[declared], instructions="in {workdir}"
    )
    assert isinstance(workspace, HostWorkspace)
    async with workspace:
        assert [one.name for one in await workspace.list_skills()] == ["greet"]
        names = {tool.name for tool in await workspace.list_tools()}
        assert {"Read", "Write", "Edit", "Grep", "Glob"} <= names
        assert await workspace.get_instructions() == f"in {tmp_path / 'w'}"
        assert [one.name for one in workspace.default_mcps] == ["remote"]


@pytest.mark.asyncio
async def test_the_hosts_tools_read_what_was_stored(tmp_path):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    text = "\n".join(f"line {number}" for number in range(50))
    path = await workspace.offload_tool_result("s1", ToolResultBlock(id="call_1", name="Bash", output=text))
    tools = {tool.name: tool for tool in await workspace.list_tools()}
    read = await tools["Read"].call(file_path=path)
    assert "line 49" in "".join(block.text for block in read.content)
    assert "50" in "".join(
        [block.text async for chunk in tools["Bash"].call(command=f"grep -c line {path}") for block in chunk.content]
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_id_reaches_outside_its_session(tmp_path, guarded, hostile):
    root = tmp_path / "outer" / "w"
    workspace = LocalWorkspace(workdir=str(root))
    async with workspace:
        await workspace.offload_context("victim", conversation())
        await workspace.offload_tool_result(hostile, ToolResultBlock(id=hostile, name="x", output="mine"))
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        [mine] = [
            path for path in before if path.parent.name == fsname(hostile) and path.name.startswith("tool_result")
        ]
        assert mine.parent.parent == root / "sessions"
        if hasattr(HostWorkspace, "purge_session"):
            await workspace.purge_session(agent_id="a", session_id=hostile)
            assert before - {path for path in tmp_path.rglob("*") if path.is_file()} == {
                path for path in before if path.parent == mine.parent
            }


@pytest.mark.asyncio
@pytest.mark.skipif(not hasattr(HostWorkspace, "purge_session"), reason="this host has no purge_session")
async def test_a_purged_session_loses_its_mcp_servers_and_its_files(tmp_path, guarded):
    client = MCPClient(name="remote", is_stateful=False, mcp_config=HttpMCPConfig(url="http://127.0.0.1:9/mcp"))
    async with LocalWorkspace(workdir=str(tmp_path)) as workspace:
        # Canary: the host deletes through this attribute.
        assert workspace._backend is workspace.get_backend()
        workspace._mcp_specs[("a", "s1")] = [client]
        await workspace.offload_context("s1", conversation())
        await workspace.purge_session(agent_id="a", session_id="s1")
        assert ("a", "s1") not in workspace._mcp_specs
        assert workspace._backend is workspace.get_backend()
        assert not (tmp_path / "sessions" / "s1").exists()
        assert (tmp_path / "data").exists()
        await workspace.offload_context("s1", conversation()[:1])
        assert len((tmp_path / "sessions/s1/context.jsonl").read_text().splitlines()) == 1


@pytest.mark.asyncio
async def test_a_reset_workspace_begins_anew(tmp_path, guarded):
    async with LocalWorkspace(workdir=str(tmp_path)) as workspace:
        await workspace.offload_context("s1", conversation())
        await workspace.reset()
        assert not (tmp_path / "sessions").exists()
        log = await workspace.offload_context("s1", conversation())
        assert len(messages_in(log)) == 2


async def compressed_by_the_host(workspace: LocalWorkspace) -> Agent:
    agent = Agent(
        name="bob",
        system_prompt="You help.",
        model=ScriptedModel(context_size=8000),
        context_config=ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1),
        offloader=workspace,
    )
    agent.state.context.extend(
        message
        for number in range(12)
        for message in (
            UserMsg(name="user", content=f"{number} " + "word " * 400),
            AssistantMsg(name="bob", content="yes"),
        )
    )
    await agent.compress_context()
    return agent


@pytest.mark.asyncio
@pytest.mark.row("A1")
async def test_without_the_middleware_the_host_compresses_into_our_store_and_a_warning_says_so_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_warned", set())
    workspace = LocalWorkspace(workdir=str(tmp_path))
    with pytest.warns(UserWarning, match="CompressionMiddleware is not installed"):
        agent = await compressed_by_the_host(workspace)
    assert str(tmp_path) in json.dumps([str(agent.state.summary)])
    stored = [entry async for entry in workspace.store.list(agent.state.session_id)]
    assert len(stored) + len(agent.state.context) >= 24
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await compressed_by_the_host(workspace)


@pytest.mark.asyncio
@pytest.mark.row("X2")
async def test_what_the_guard_stores_here_is_recalled_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_warned", set())
    workspace = LocalWorkspace(workdir=str(tmp_path))
    guard = OffloadGuard(workspace, codec=HostCodec(), timeout_s=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = await guard.store_messages("s1", conversation())
    assert stored.recallable
    assert stored.reference == str(tmp_path / "sessions/s1/context.jsonl")
    assert guard.store is workspace.store

    class Ruler:
        async def count(self, text: str) -> int:
            return len(text) // 4

        async def head(self, text: str, tokens: int) -> str:
            return text[: 4 * tokens]

    answer = await Recall(workspace.store).search("s1", "where is the parser", limit_tokens=300, ruler=Ruler())
    assert 'reference="context#1"' in answer


@pytest.mark.asyncio
async def test_each_line_carries_its_number_key_and_checksum(tmp_path, guarded):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    sent = conversation()
    log = await workspace.offload_context("s1", sent)
    found = [lines.unseal(line.encode()) for line in content_of(log).splitlines()]
    assert [line.number for line in found] == [1, 2]
    assert [line.key.partition(":")[0] for line in found] == [message.id for message in sent]
    assert [entry.kind async for entry in workspace.store.list("s1")].count(BLOB) == 0
