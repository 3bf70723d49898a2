"""AgentScope's document "Context" from top to bottom, by `ContextConfig.profile("agentscope")` and the real agent."""

import base64
import hashlib
import json

import pytest
from agentscope.agent import Agent
from agentscope.message import Base64Source, DataBlock, TextBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, ConfigError, ContextConfig, LocalWorkspace
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    summary_text,
    text_of,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

FIELDS = ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve")
SUMMARY = {name: f"What stands in {name}." for name in FIELDS}
WITHOUT_PATH = (
    "<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited context.</system-reminder>"
)
WITH_PATH = (
    "<<<TRUNCATED>>>\n"
    "<system-reminder>The remaining content has been omitted for limited context. You can refer to the file in '{path}' for "
    "the truncated content if needed.</system-reminder>"
)


def scope(model, **kwargs):
    settings = kwargs.pop("settings", {})
    kwargs.setdefault("offloader", memory_offloader())
    return make_agent(model, config=ContextConfig.profile("agentscope", **settings), **kwargs)


def model(*script, context_size=16_384, **kwargs):
    return ScriptedModel(script or ["done"], context_size=context_size, summaries=SUMMARY, **kwargs)


def look(answer, name="look", about=""):
    """Return a tool that always gives the same answer."""

    def tool(topic: str = "") -> str:
        """Look at a topic.

        Args:
            topic (str): The topic.
        """
        return answer

    return FunctionTool(tool, name=name, description=f"Look at a topic. {about}", is_read_only=True)


# Configure ContextConfig


@pytest.mark.row("A1")
async def test_the_documents_example_of_a_config_is_the_profile():
    config = ContextConfig.profile("agentscope")

    assert (config.trigger_ratio, config.reserve_ratio, config.tool_result_limit) == (0.8, 0.1, 3000)
    assert list(config.summary_schema["properties"]) == list(FIELDS)
    assert scope(model()).context_config == config


@pytest.mark.row("A1")
async def test_the_trigger_ratio_is_capped_at_nine_tenths():
    assert ContextConfig.profile("agentscope", trigger_ratio=0.9).trigger_ratio == 0.9
    with pytest.raises(ConfigError, match=r"trigger_ratio is 0\.91"):
        ContextConfig.profile("agentscope", trigger_ratio=0.91)


# Overview: the three layers


class Transform(MiddlewareBase):
    """Adds a line to the system prompt."""

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        return f"{current_prompt}\nTransformed: {words(1_000)}"


@pytest.mark.row("A5", "A12")
async def test_a_request_is_the_system_prompt_with_its_transforms_then_the_summary_then_the_context():
    scripted = model()
    agent = scope(scripted, middlewares=[CompressionMiddleware(), Transform()])
    agent.state.context = history(30, size=400)

    await agent.reply(user("Go on."))

    system, summary, *context = scripted.chats[0].messages
    assert [system.role, summary.role] == ["system", "user"]
    assert text_of([system]).startswith("You look things up.")
    assert "Transformed: " in text_of([system])
    assert all(value in text_of([summary]) for value in SUMMARY.values())
    assert "Go on." in text_of(context)
    assert not any(value in text_of(context) for value in SUMMARY.values())


@pytest.mark.row("A12")
async def test_the_system_prompt_is_the_base_then_the_skills_then_the_transforms_and_all_of_it_counts(tmp_path):
    skill = tmp_path / "survey"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: survey\ndescription: How to survey a site.\n---\nWalk around it.\n")
    scripted = model()
    agent = scope(
        scripted,
        toolkit=Toolkit(skills_or_loaders=[str(skill)]),
        middlewares=[CompressionMiddleware(), Transform()],
    )
    agent.state.context = history(30, size=400)

    await agent.reply(user("Go on."))

    prompt = text_of(scripted.chats[0].messages[:1])
    places = [prompt.index(part) for part in ("You look things up.", "How to survey a site.", "Transformed: ")]
    assert places == sorted(places)
    assert applied(agent)


# Compress context, step by step


@pytest.mark.row("A2")
async def test_it_activates_where_the_tokens_exceed_four_fifths_of_the_context_size_and_not_before():
    scripted = model(*fetches(80), context_size=16_384, enforce="cl100k")
    agent = scope(scripted)

    await agent.reply(user("Look up eighty topics."))

    assert applied(agent)
    trigger = int(0.8 * 16_384)
    assert all(receipt.limit_tokens == trigger <= receipt.tokens_before for receipt in applied(agent))
    step = max(b.input_tokens - a.input_tokens for a, b in zip(scripted.chats, scripted.chats[1:], strict=False))
    sizes = [request.input_tokens for request in scripted.chats]
    assert max(sizes) < trigger
    assert max(sizes) > trigger - 2 * step, "it waits until the trigger is reached"


@pytest.mark.row("A2")
@pytest.mark.parametrize("what", ["nothing", "system prompt", "tool schemas", "summary"])
async def test_system_prompt_summary_context_and_tool_schemas_count(what):
    more = words(2_500)
    agent = scope(
        model(),
        prompt=more if what == "system prompt" else "You look things up.",
        tools=[look("", about=more if what == "tool schemas" else "")],
    )
    agent.state.summary = more if what == "summary" else ""
    agent.state.context = history(28, size=300)

    await agent.reply(user("Go on."))

    assert len(applied(agent)) == (what != "nothing")


@pytest.mark.row("A3")
@pytest.mark.parametrize("size", [60, 150, 300])
async def test_the_newest_messages_within_a_tenth_of_the_context_size_are_kept_and_pairs_stay_whole(size):
    scripted = model()
    agent = scope(scripted)
    turns = 13_000 // (size + 60)
    agent.state.context = history(turns, size=size)
    before = list(agent.state.context)

    await agent.reply(user("Go on."))

    kept = [block.id for message in agent.state.context for block in message.content]
    ids = [block.id for message in before for block in message.content]
    stayed = [block_id for block_id in ids if block_id in kept]
    assert stayed
    assert stayed == ids[-len(stayed) :], "the older ones leave"
    assert len(stayed) < len(ids)
    assert orphans(agent.state.context) == []
    text = text_of(scripted.chats[0].messages[2:])
    assert len(text) / 5 < 0.1 * 16_384 + size + 200


@pytest.mark.row("A4", "A5")
async def test_the_summary_has_the_five_fields_replaces_what_was_compressed_and_the_step_goes_on():
    scripted = model("answer", enforce="cl100k")
    agent = scope(scripted)
    agent.state.context = history(28, size=380)

    answer = await agent.reply(user("Go on."))

    assert answer.get_text_content() == "answer"
    assert [request.kind for request in scripted.requests] == ["summary", "chat"]
    titles = ["# Task Overview", "# Current State", "# Important Discoveries", "# Next Steps", "# Context to Preserve"]
    layer = summary_text(agent)
    assert [layer.index(title) for title in titles] == sorted(layer.index(title) for title in titles)
    assert all(value in layer for value in SUMMARY.values())
    assert "Question 0" not in text_of(agent.state.context)


@pytest.mark.row("A2")
async def test_the_last_tenth_is_room_enough_for_the_call_that_makes_the_summary():
    scripted = model(*fetches(60), context_size=16_384, enforce="cl100k")
    agent = scope(scripted, settings={"trigger_ratio": 0.9})

    await agent.reply(user("Look up sixty topics."))

    assert scripted.summary_requests
    assert not any(request.refused for request in scripted.requests)
    assert max(request.input_tokens for request in scripted.requests) <= 16_384


# Compression by hand


@pytest.mark.row("A6")
async def test_by_hand_nothing_happens_below_the_trigger_and_a_config_for_one_call_has_its_own():
    scripted = model()
    agent = scope(scripted)
    agent.state.context = history(26, size=300)  # between 0.5 and 0.8 of the window
    before = list(agent.state.context)

    await agent.compress_context()
    assert agent.state.context == before
    assert not scripted.requests

    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1))
    assert len(applied(agent)) == len(scripted.summary_requests) == 1
    assert agent.context_config.trigger_ratio == 0.8


# Truncate tool results


@pytest.mark.row("A7")
async def test_a_result_over_3000_tokens_keeps_its_beginning_with_the_marker_behind_it():
    text = words(5_000)
    scripted = model(call("look"), enforce="cl100k")
    agent = scope(scripted, tools=[look(text)], offloader=None)

    await agent.reply(user("Look."))

    [shown] = [block.output for block in results_of(agent)]
    reserved, marker = output_text(shown).split("\n<<<TRUNCATED>>>", 1)
    assert f"<<<TRUNCATED>>>{marker}" == WITHOUT_PATH
    assert reserved
    assert scripted.chats[1].input_tokens - scripted.chats[0].input_tokens <= 3_000 + 40


@pytest.mark.row("A7", "A9")
async def test_with_a_workspace_the_marker_names_the_file_that_has_the_whole_result(tmp_path):
    text = words(5_000)
    workspace = LocalWorkspace(workdir=str(tmp_path))
    await workspace.initialize()
    scripted = model(made := call("look"))
    agent = scope(scripted, tools=[look(text)], offloader=workspace)

    await agent.reply(user("Look."))

    [shown] = [block.output for block in results_of(agent)]
    path = tmp_path / "sessions" / agent.state.session_id / f"tool_result-{made.id}.txt"
    assert output_text(shown).endswith(WITH_PATH.format(path=path))
    assert path.read_text() == text


@pytest.mark.row("A7")
async def test_a_result_of_fewer_tokens_than_the_limit_stays_as_it_is():
    text = words(1_800)
    agent = scope(model(call("look")), tools=[look(text)])

    await agent.reply(user("Look."))

    assert [output_text(block.output) for block in results_of(agent)] == [text]


@pytest.mark.row("A7")
async def test_a_result_that_only_the_host_counts_over_the_limit_loses_no_more_than_the_host_wants():
    text = words(2_000)  # 2,000 tokens of cl100k; the host counts 3,077 by its characters
    agent = scope(model(call("look")), tools=[look(text)], offloader=None)

    await agent.reply(user("Look."))

    [shown] = [output_text(block.output) for block in results_of(agent)]
    assert shown.endswith(WITHOUT_PATH)
    assert len(shown) > 0.85 * len(text)


def results_of(agent):
    return [block for message in agent.state.context for block in message.content if block.type == "tool_result"]


def output_text(output):
    return output if isinstance(output, str) else "".join(block.text for block in output if block.type == "text")


# Offload context


@pytest.mark.row("A9")
async def test_a_workspace_has_the_compressed_messages_of_each_session_in_a_directory_of_its_own(tmp_path):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    await workspace.initialize()
    agents = [scope(model(), offloader=workspace), scope(model(), offloader=workspace)]
    for agent in agents:
        agent.state.context = history(30, size=400, prefix=f"of-{agent.state.session_id}")
        await agent.reply(user("Go on."))

    for agent in agents:
        lines = (tmp_path / "sessions" / agent.state.session_id / "context.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines]
        assert f"of-{agent.state.session_id}-0" in lines[0]
        assert all(other.state.session_id not in "".join(lines) for other in agents if other is not agent)
    assert (tmp_path / "skills").is_dir()


@pytest.mark.row("A9", "A10")
async def test_images_of_offloaded_messages_are_stored_once_by_the_hash_of_their_content(tmp_path):
    workspace = LocalWorkspace(workdir=str(tmp_path))
    await workspace.initialize()
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
    source = {"media_type": "image/png", "data": base64.b64encode(png).decode()}
    agents = [scope(model(), offloader=workspace), scope(model(), offloader=workspace)]
    for agent in agents:
        shown = [TextBlock(text="Look at this."), DataBlock(source=Base64Source(**source))]
        agent.state.context = [UserMsg(name="user", content=shown), *history(30, size=400)]
        await agent.reply(user("Go on."))

    stored = [path for path in (tmp_path / "data").iterdir() if path.suffix == ".png"]
    assert [path.name for path in stored] == [f"{hashlib.sha256(png).hexdigest()}.png"]
    assert stored[0].read_bytes() == png


class S3Offloader:
    """The document's own example of a custom offloader, with a dict for the bucket: two methods and no inheritance."""

    def __init__(self, bucket, prefix):
        self.bucket = bucket
        self.prefix = prefix

    async def offload_context(self, session_id, msgs, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/context.jsonl"
        self.bucket[key] = "\n".join(m.model_dump_json() for m in msgs)
        return f"s3://bucket/{key}"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/tool_result-{tool_result.id}.txt"
        self.bucket[key] = output_text(tool_result.output)
        return f"s3://bucket/{key}"


@pytest.mark.row("A8")
async def test_the_documents_custom_offloader_gets_what_leaves_and_its_references_stand_in_the_context():
    bucket: dict[str, str] = {}
    text = words(5_000)
    agent = scope(model(made := call("look")), tools=[look(text)], offloader=S3Offloader(bucket, "runs"))
    agent.state.context = history(30, size=400)

    await agent.reply(user("Look."))

    folder = f"runs/sessions/{agent.state.session_id}"
    assert "Question 0" in bucket[f"{folder}/context.jsonl"]
    assert bucket[f"{folder}/tool_result-{made.id}.txt"] == text
    assert f"s3://bucket/{folder}/context.jsonl" in summary_text(agent)
    [shown] = [output_text(block.output) for block in results_of(agent) if block.id == made.id]
    assert WITH_PATH.format(path=f"s3://bucket/{folder}/tool_result-{made.id}.txt") in shown


@pytest.mark.row("A11")
async def test_without_an_offloader_what_leaves_is_dropped():
    agent = scope(model(), offloader=None)
    agent.state.context = history(30, size=400)

    await agent.reply(user("Go on."))

    assert len(applied(agent)) == 1
    assert "Question 0" not in text_of(agent.state.context)
